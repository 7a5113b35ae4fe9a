// Colours of faces for the light: sums in an order that never changes, so that the same picture gives the same light.

#define MOMENTS 13  // The weight; then of each channel the live face, its squares, the new face, its squares.

// Sums over a part of each face, every `step` pixels across and down; a block of threads a part. live (count, height,
// width, 3); parts (count, blocks, 13).
template <class Real>
__device__ __forceinline__ void moment_parts(const float* __restrict__ live, int width, int height, int step,
                                             const Real* __restrict__ faces, Layout layout,
                                             const float* __restrict__ masks, float* __restrict__ parts) {
    __shared__ float room[THREADS];
    int face = blockIdx.y, across = (width + step - 1) / step, down = (height + step - 1) / step;
    float sums[MOMENTS];
    for (int k = 0; k < MOMENTS; k++) sums[k] = 0.0f;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < across * down; i += gridDim.x * THREADS) {
        int x = i % across * step, y = i / across * step;
        long long place = ((long long)face * height + y) * width + x;
        const Real* pixel = faces + layout.place(face, x, y);
        float weight = masks[place];
        sums[0] += weight;
        for (int k = 0; k < 3; k++) {
            float a = live[3 * place + k], b = get(pixel + k * layout.channel);
            sums[1 + k] += weight * a;
            sums[4 + k] += weight * a * a;
            sums[7 + k] += weight * b;
            sums[10 + k] += weight * b * b;
        }
    }
    for (int k = 0; k < MOMENTS; k++) {
        float sum = block_sum(sums[k], room);
        if (threadIdx.x == 0) parts[(face * gridDim.x + blockIdx.x) * MOMENTS + k] = sum;
    }
}

#define MOMENT_PARTS(NAME, REAL)                                                                                      \
    extern "C" __global__ void NAME(const float* __restrict__ live, int width, int height, int step,                  \
                                    const REAL* __restrict__ faces, LAYOUT, const float* __restrict__ masks,          \
                                    float* __restrict__ parts) {                                                      \
        Layout layout = LAYOUT_GIVEN;                                                                                 \
        moment_parts<REAL>(live, width, height, step, faces, layout, masks, parts);                                   \
    }

MOMENT_PARTS(moment_parts_float, float)
MOMENT_PARTS(moment_parts_half, half_t)

// sums (count, 13) of parts (count, number, 13). One block of threads a face.
extern "C" __global__ void moment_sums(const float* __restrict__ parts, int number, double* __restrict__ sums) {
    __shared__ double room[THREADS];
    const float* mine = parts + (long long)blockIdx.x * number * MOMENTS;
    for (int k = 0; k < MOMENTS; k++) {
        double sum = 0.0;
        for (int i = threadIdx.x; i < number; i += THREADS) sum += mine[i * MOMENTS + k];
        sum = block_sum(sum, room);
        if (threadIdx.x == 0) sums[MOMENTS * blockIdx.x + k] = sum;
    }
}
