"""Reads networks for all white boxes: modules as they run, aten operators, nodes of ONNX files."""
