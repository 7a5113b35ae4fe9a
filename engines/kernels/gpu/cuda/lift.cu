// What is taken out of a picture before it is painted over, and laid back into it.

// A window of a picture as a texture, opaque. With a strength its brightness chooses another colour of a table of 256, and
// that is mixed in: the weights of grey are OpenCV's whole numbers.
extern "C" __global__ void lift(const byte* __restrict__ image, int row, int x, int y, int width, int height,
                                const byte* __restrict__ table, float strength, byte* __restrict__ out) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    const byte* pixel = image + (long long)(y + py) * row + 3 * (x + px);
    byte* texel = out + 4 * ((long long)py * width + px);
    int grey = (3735 * pixel[0] + 19235 * pixel[1] + 9798 * pixel[2] + (1 << 14)) >> 15;
    for (int k = 0; k < 3; k++) {
        float live = (float)pixel[k];
        texel[k] = strength > 0.0f ? to_byte(strength * (float)table[3 * grey + k] + (1.0f - strength) * live) : pixel[k];
    }
    texel[3] = 255;
}

__device__ __forceinline__ float mask_at(const byte* __restrict__ mask, int columns, int rows, int x, int y) {
    return x >= 0 && y >= 0 && x < columns && y < rows ? (float)mask[(long long)y * columns + x] : 0.0f;
}

// Lays a window that was lifted back over what was painted, as far as a mask says. The affine maps pixels of the window to
// pixels of the mask; outside of it is nothing.
extern "C" __global__ void put_back(byte* __restrict__ image, int row, int x, int y, int width, int height,
                                    const byte* __restrict__ lifted, const byte* __restrict__ mask, int columns,
                                    int rows, const float* __restrict__ affine) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float u = affine[0] * (float)px + (affine[1] * (float)py + affine[2]);
    float v = affine[3] * (float)px + (affine[4] * (float)py + affine[5]);
    // What is no number lies outside.
    if (!(u > -1.0f && v > -1.0f && u < (float)columns && v < (float)rows)) return;
    int left = (int)floorf(u), top = (int)floorf(v);
    float right = u - (float)left, below = v - (float)top;
    float upper = mix(mask_at(mask, columns, rows, left, top), mask_at(mask, columns, rows, left + 1, top), right);
    float lower = mix(mask_at(mask, columns, rows, left, top + 1), mask_at(mask, columns, rows, left + 1, top + 1), right);
    int amount = (int)(mix(upper, lower, below) + 0.5f);
    amount += amount >> 7;
    byte* pixel = image + (long long)(y + py) * row + 3 * (x + px);
    const byte* kept = lifted + 4 * ((long long)py * width + px);
    for (int k = 0; k < 3; k++) {
        int painted = pixel[k];
        pixel[k] = (byte)(painted + (((kept[k] - painted) * amount + 128) >> 8));
    }
}
