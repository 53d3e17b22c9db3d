"""ConvMeter: run time and scalability of convolutional networks from what can be counted without running them.

Beringer et al., "Dissecting Convolutional Neural Networks for Runtime and Scalability Prediction", ICPP 2024. Here only
``counting``, ``find_network`` and ``measurement`` load torch.
"""
