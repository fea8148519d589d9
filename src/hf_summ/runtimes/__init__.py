"""Other programs that compute our models: ONNX Runtime, for CPUs."""
