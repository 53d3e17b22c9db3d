"""How networks are read, for all that predict from one: modules as they run, aten operators, nodes of ONNX files."""
