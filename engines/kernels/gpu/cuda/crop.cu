// Aligned crops: warp.py in one kernel, for several faces at once, in whatever layout and type the network wants.

#define LARGEST_BLOCK 64  // Pixels; a face of 64 times its crop fills no frame, so that such a matrix is a mistake.

// How a frame is made smaller before it is sampled: blocks of whole pixels, the first one's corner, and how many.
struct Blocks {
    int size, left, top, columns, rows;
};

__device__ __forceinline__ int whole(double value, double low, double high) {
    return (int)fmin(fmax(value, low), high);  // What is no number becomes low.
}

__device__ __forceinline__ Blocks blocks_of(const double* __restrict__ back, int columns, int rows, int width,
                                            int height) {
    Blocks blocks;
    // As wide as a pixel of the crop, rounded; a sample may skip at most two thirds of a pixel.
    blocks.size = whole(sqrt(back[0] * back[0] + back[3] * back[3]) + 0.35, 1.0, (double)LARGEST_BLOCK);
    int size = blocks.size;
    double right = back[0] * (columns - 1), down = back[1] * (rows - 1);
    double low = back[2] + fmin(fmin(0.0, right), fmin(down, right + down));
    double high = back[2] + fmax(fmax(0.0, right), fmax(down, right + down));
    // One block beyond the border holds nothing but the border; what is farther out is the same.
    blocks.left = whole(floor(low) - size, -size, width - 1);
    blocks.columns = (whole(ceil(high) + size, 0.0, width - 1 + size) - blocks.left) / size + 1;
    right = back[3] * (columns - 1), down = back[4] * (rows - 1);
    low = back[5] + fmin(fmin(0.0, right), fmin(down, right + down));
    high = back[5] + fmax(fmax(0.0, right), fmax(down, right + down));
    blocks.top = whole(floor(low) - size, -size, height - 1);
    blocks.rows = (whole(ceil(high) + size, 0.0, height - 1 + size) - blocks.top) / size + 1;
    return blocks;
}

// The mean of one block, times a weight, is added to three channels.
__device__ __forceinline__ void add_block(float* sums, const byte* __restrict__ image, int width, int height, int row,
                                          int left, int top, int size, float weight) {
    int blue = 0, green = 0, red = 0;
    for (int j = 0; j < size; j++) {
        const byte* line = image + (long long)bounded_int(top + j, 0, height - 1) * row;
        for (int i = 0; i < size; i++) {
            const byte* pixel = line + 3 * bounded_int(left + i, 0, width - 1);
            blue += pixel[0];
            green += pixel[1];
            red += pixel[2];
        }
    }
    float share = weight / (float)(size * size);
    sums[0] += (float)blue * share;
    sums[1] += (float)green * share;
    sums[2] += (float)red * share;
}

template <class Real>
__device__ __forceinline__ void crop(const byte* __restrict__ image, int width, int height, int row,
                                     const double* __restrict__ backs, int columns, int rows, Real* __restrict__ out,
                                     Layout layout, float3 scale, float3 offset) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, face = blockIdx.z;
    if (x >= columns || y >= rows) return;
    const double* back = backs + 6 * face;
    Blocks blocks = blocks_of(back, columns, rows, width, height);
    int size = blocks.size;
    double u = back[0] * x + back[1] * y + back[2], v = back[3] * x + back[4] * y + back[5];
    float sums[3] = {0.0f, 0.0f, 0.0f};
    if (size < 2) {
        blocks.left = blocks.top = 0;
        blocks.columns = width;
        blocks.rows = height;
    } else {
        // Pixel i of the small picture is the middle of a block.
        u = (u - (blocks.left + (size - 1) / 2.0)) / size;
        v = (v - (blocks.top + (size - 1) / 2.0)) / size;
    }
    u = fmin(fmax(u, 0.0), blocks.columns - 1.0);
    v = fmin(fmax(v, 0.0), blocks.rows - 1.0);
    int left = (int)u, top = (int)v;
    float right = (float)(u - left), below = (float)(v - top);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 2; i++) {
            float weight = (i ? right : 1.0f - right) * (j ? below : 1.0f - below);
            if (weight == 0.0f) continue;
            add_block(sums, image, width, height, row, blocks.left + (left + i) * size, blocks.top + (top + j) * size,
                      size, weight);
        }
    Real* place = out + layout.place(face, x, y);
    put(place, offset.x + scale.x * sums[0]);
    put(place + layout.channel, offset.y + scale.y * sums[1]);
    put(place + 2 * layout.channel, offset.z + scale.z * sums[2]);
}

#define CROP(NAME, REAL)                                                                                             \
    extern "C" __global__ void NAME(const byte* __restrict__ image, int width, int height, int row,                  \
                                    const double* __restrict__ backs, int columns, int rows,                         \
                                    REAL* __restrict__ out, LAYOUT, float scale0, float scale1, float scale2,        \
                                    float offset0, float offset1, float offset2) {                                   \
        Layout layout = LAYOUT_GIVEN;                                                                                \
        crop<REAL>(image, width, height, row, backs, columns, rows, out, layout, make_float3(scale0, scale1, scale2), \
                   make_float3(offset0, offset1, offset2));                                                          \
    }

CROP(crop_float, float)
CROP(crop_half, half_t)
