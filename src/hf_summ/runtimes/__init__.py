"""Other runtimes for our models: ONNX Runtime on CPUs."""
