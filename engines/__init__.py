"""Networks, kernels and swappers: what runs on a device. Knows nothing of cameras, threads or clocks."""
