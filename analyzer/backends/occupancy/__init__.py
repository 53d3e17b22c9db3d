"""GPU occupancy of a network before it runs, and packing jobs by it (Mei et al., "GPU Occupancy Prediction of Deep Learning
Models Using Graph Neural Network").
"""
