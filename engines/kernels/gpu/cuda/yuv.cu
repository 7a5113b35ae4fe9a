// Pictures for virtual cameras: BT.601, limited range, in OpenCV's own whole numbers (20 bits of fraction),
// so that every byte is the same. A thread works on two by two pixels, which share one pair of colours.

__device__ __forceinline__ byte luma(int b, int g, int r) {
    return (byte)((269484 * r + 528482 * g + 102760 * b + (1 << 19) + (16 << 20)) >> 20);
}

extern "C" __global__ void bgr_to_i420(const byte* __restrict__ image, int width, int height, int row,
                                       byte* __restrict__ out) {
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x), y = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
    if (x + 1 >= width || y + 1 >= height) return;
    for (int j = 0; j < 2; j++) {
        const byte* pair = image + (long long)(y + j) * row + 3 * x;
        byte* to = out + (long long)(y + j) * width + x;
        to[0] = luma(pair[0], pair[1], pair[2]);
        to[1] = luma(pair[3], pair[4], pair[5]);
    }
    const byte* first = image + (long long)y * row + 3 * x;
    int b = first[0], g = first[1], r = first[2], half = (1 << 19) + (128 << 20);
    byte* blue = out + (long long)width * height + (long long)(y / 2) * (width / 2) + x / 2;
    byte* red = blue + (long long)(width / 2) * (height / 2);
    *blue = (byte)((-155188 * r - 305135 * g + 460324 * b + half) >> 20);
    *red = (byte)((460324 * r - 385875 * g - 74448 * b + half) >> 20);
}
