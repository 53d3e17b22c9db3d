"""ConvMeter: run time and scalability of convolutional networks from what can be counted without running them.

Beringer et al., "Dissecting Convolutional Neural Networks for Runtime and Scalability Prediction", ICPP 2024. Here only
``counting``, ``find_network`` and ``measurement`` load torch.
"""

from pathlib import Path

SHIPPED = Path(__file__).with_name("shipped")
"""The model that comes with Epochcast: public tables and one of ours, by `lab/speed/convmeter/fit_shipped.py`."""
