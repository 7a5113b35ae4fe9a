"""ONNX Runtime: networks on a processor or a GPU."""
