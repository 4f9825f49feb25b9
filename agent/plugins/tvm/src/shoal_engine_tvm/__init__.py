"""How is Apache TVM an engine of shoal-agent? By the entry point `tvm.onnx`, which a worker finds by its metadata."""
