"""What the matrix between ranks and the matrices between GPUs share."""
