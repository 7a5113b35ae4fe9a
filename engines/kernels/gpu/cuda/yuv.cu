// Pictures for cameras and virtual cameras: BT.601, limited range, in OpenCV's own whole numbers (20 bits of fraction),
// so that every byte is the same. A thread works on two by two pixels, which share one pair of colours.

__device__ __forceinline__ byte luma(int b, int g, int r) {
    return (byte)((269484 * r + 528482 * g + 102760 * b + (1 << 19) + (16 << 20)) >> 20);
}

// Planes or pairs: `apart` is how far one colour is from the next of its kind.
__device__ __forceinline__ void write_yuv(const byte* __restrict__ image, int width, int height, int row,
                                          byte* __restrict__ bright, byte* __restrict__ blue, byte* __restrict__ red,
                                          int colour_row, int apart) {
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x), y = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
    if (x + 1 >= width || y + 1 >= height) return;
    for (int j = 0; j < 2; j++) {
        const byte* pair = image + (long long)(y + j) * row + 3 * x;
        byte* to = bright + (long long)(y + j) * width + x;
        to[0] = luma(pair[0], pair[1], pair[2]);
        to[1] = luma(pair[3], pair[4], pair[5]);
    }
    const byte* first = image + (long long)y * row + 3 * x;
    int b = first[0], g = first[1], r = first[2], half = (1 << 19) + (128 << 20);
    long long place = (long long)(y / 2) * colour_row + (long long)(x / 2) * apart;
    blue[place] = (byte)((-155188 * r - 305135 * g + 460324 * b + half) >> 20);
    red[place] = (byte)((460324 * r - 385875 * g - 74448 * b + half) >> 20);
}

extern "C" __global__ void bgr_to_i420(const byte* __restrict__ image, int width, int height, int row,
                                       byte* __restrict__ out) {
    byte* blue = out + (long long)width * height;
    write_yuv(image, width, height, row, out, blue, blue + (long long)(width / 2) * (height / 2), width / 2, 1);
}

extern "C" __global__ void bgr_to_nv12(const byte* __restrict__ image, int width, int height, int row,
                                       byte* __restrict__ out) {
    byte* pairs = out + (long long)width * height;
    write_yuv(image, width, height, row, out, pairs, pairs + 1, width, 2);
}

__device__ __forceinline__ byte limited(int value) { return (byte)bounded_int(value >> 20, 0, 255); }

__device__ __forceinline__ void write_bgr(byte* __restrict__ to, int bright, int u, int v) {
    int light = (bright > 16 ? bright - 16 : 0) * 1220542 + (1 << 19);
    u -= 128;
    v -= 128;
    to[0] = limited(light + 2116026 * u);
    to[1] = limited(light - 852492 * v - 409993 * u);
    to[2] = limited(light + 1673527 * v);
}

extern "C" __global__ void nv12_to_bgr(const byte* __restrict__ picture, int width, int height, int picture_row,
                                       byte* __restrict__ image, int row) {
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x), y = 2 * (blockIdx.y * blockDim.y + threadIdx.y);
    if (x + 1 >= width || y + 1 >= height) return;
    const byte* pair = picture + (long long)(height + y / 2) * picture_row + x;
    int u = pair[0], v = pair[1];
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 2; i++)
            write_bgr(image + (long long)(y + j) * row + 3 * (x + i), picture[(long long)(y + j) * picture_row + x + i],
                      u, v);
}

// Two pixels of a row share their colours: Y U Y V.
extern "C" __global__ void yuyv_to_bgr(const byte* __restrict__ picture, int width, int height, int picture_row,
                                       byte* __restrict__ image, int row) {
    int x = 2 * (blockIdx.x * blockDim.x + threadIdx.x), y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x + 1 >= width || y >= height) return;
    const byte* pair = picture + (long long)y * picture_row + 2 * x;
    byte* to = image + (long long)y * row + 3 * x;
    write_bgr(to, pair[0], pair[1], pair[3]);
    write_bgr(to + 3, pair[2], pair[1], pair[3]);
}
