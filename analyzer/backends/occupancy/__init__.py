"""GPU occupancy of a network before it runs, and packing jobs by it (Mei et al., "GPU Occupancy Prediction of Deep Learning
Models Using Graph Neural Network").
"""

from pathlib import Path

SHIPPED = Path(__file__).with_name("shipped")
"""The model that comes with Epochcast: random networks that trained on an A100, by ``lab/speed/occupancy/fit_shipped.py``."""
