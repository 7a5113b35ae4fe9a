// Paste-back: what a network made, laid over the face it was made for. The steps of paste.py, for several faces at once:
// `bake` matches the colours and `paste` blends.

// Textures of three channels and opacity, whole levels. faces: what a network made, in any layout; block: values along a
// side that become one texel; match: six a face, factors of three channels that bring them to levels, and what is added
// then; faults: one a face, set to 1 where it holds what is no number, or infinite; never set back.
template <class Real>
__device__ __forceinline__ void bake(const Real* __restrict__ faces, int columns, int rows, Layout layout,
                                     const float* __restrict__ masks, int block, const float* __restrict__ match,
                                     int* __restrict__ faults, byte* __restrict__ textures) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, face = blockIdx.z;
    int width = columns / block, height = rows / block;
    if (x >= width || y >= height) return;
    const float *mask = masks + (long long)face * columns * rows, *mine = match + 6 * face;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int j = y * block; j < (y + 1) * block; j++)
        for (int i = x * block; i < (x + 1) * block; i++) {
            const Real* pixel = faces + layout.place(face, i, j);
            for (int k = 0; k < 3; k++) sums[k] += get(pixel + k * layout.channel);
            sums[3] += mask[(long long)j * columns + i];
        }
    float total = sums[0] + sums[1] + sums[2] + sums[3], share = 1.0f / (float)(block * block);
    byte* texel = textures + 4 * (((long long)face * height + y) * width + x);
    for (int k = 0; k < 3; k++) texel[k] = to_byte(sums[k] * share * mine[k] + mine[3 + k]);
    texel[3] = to_byte(bounded(sums[3] * share, 0.0f, 1.0f) * 255.0f);
    // Less itself, what is no number or infinite is no nought.
    if (total - total != 0.0f) faults[face] = 1;
}

#define BAKE(NAME, REAL)                                                                                              \
    extern "C" __global__ void NAME(const REAL* __restrict__ faces, int columns, int rows, LAYOUT,                    \
                                    const float* __restrict__ masks, int block, const float* __restrict__ match,      \
                                    int* __restrict__ faults, byte* __restrict__ textures) {                          \
        Layout layout = LAYOUT_GIVEN;                                                                                 \
        bake<REAL>(faces, columns, rows, layout, masks, block, match, faults, textures);                              \
    }

BAKE(bake_float, float)
BAKE(bake_half, half_t)

// Where a pixel of the frame lies in a texture; false outside of it, and for a matrix that is no map at all.
__device__ __forceinline__ bool place_in(const double* __restrict__ affine, int px, int py, int columns, int rows,
                                         float* u, float* v) {
    double area = affine[0] * affine[4] - affine[1] * affine[3];
    if (!(1e-9 < fabs(area) && fabs(area) < 1e9)) return false;
    double x = affine[0] * px + affine[1] * py + affine[2], y = affine[3] * px + affine[4] * py + affine[5];
    if (!(x >= 0.0 && x <= columns - 1.0 && y >= 0.0 && y <= rows - 1.0)) return false;
    *u = (float)x;
    *v = (float)y;
    return true;
}

// Lays a face over one pixel of the frame. A region is the left, top, right and bottom of what may be painted.
__device__ __forceinline__ void paste_pixel(byte* __restrict__ place, const Texture& face, int px, int py,
                                            const double* __restrict__ affine, const int* __restrict__ region) {
    float u, v, lit[4], pixel[3];
    if (px < region[0] || py < region[1] || px >= region[2] || py >= region[3]) return;
    if (!place_in(affine, px, py, face.width, face.height, &u, &v)) return;
    sample(lit, face, u, v);
    if (!(lit[3] > 0.0f)) return;
    for (int k = 0; k < 3; k++) pixel[k] = (float)place[k];
    blend(pixel, lit, lit[3] * (1.0f / 255.0f));
    for (int k = 0; k < 3; k++) place[k] = (byte)(int)pixel[k];
}

// Where faces overlap the later one lies on top.
extern "C" __global__ void paste(byte* __restrict__ image, int width, int height, int row,
                                 const byte* __restrict__ textures, int columns, int rows,
                                 const double* __restrict__ affines, const int* __restrict__ regions, int count) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    for (int face = 0; face < count; face++) {
        Texture texture = {textures + 4LL * face * columns * rows, columns, rows, 4 * columns};
        paste_pixel(image + (long long)py * row + 3 * px, texture, px, py, affines + 6 * face, regions + 4 * face);
    }
}
