"""TensorRT: plans built, judged, kept and run."""
