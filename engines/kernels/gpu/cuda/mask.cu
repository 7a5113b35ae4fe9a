// Masks: made of outlines, narrowed by a network's own, made smaller, made softer.

// Convex outlines filled with ones, falling smoothly to nought at their edge: of mask.py. Inside of one the distance to
// it is the least of the distances to the lines of its sides: lines (count, sides, 3), feathers (count).
extern "C" __global__ void feather_convex(float* __restrict__ masks, int width, int height,
                                          const float* __restrict__ lines, int sides,
                                          const float* __restrict__ feathers) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, number = blockIdx.z;
    if (x >= width || y >= height) return;
    float share = 1.0f / fmaxf(feathers[number], 1e-3f), t = 1.0f;
    for (int side = 0; side < sides; side++) {
        const float* line = lines + 3 * (number * sides + side);
        t = fminf(t, line[0] * share * (float)x + (line[1] * (float)y + line[2]) * share);
    }
    t = fmaxf(t, 0.0f);
    masks[((long long)number * height + y) * width + x] = t * t * (3.0f - 2.0f * t);
}

// The lesser of two masks, of which the second comes from a network. What is no number stays none, to be found out.
template <class Real>
__device__ __forceinline__ void narrow(float* __restrict__ masks, int width, int height,
                                       const Real* __restrict__ others, Layout layout) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, number = blockIdx.z;
    if (x >= width || y >= height) return;
    float* mask = masks + ((long long)number * height + y) * width + x;
    float other = get(others + layout.place(number, x, y));
    *mask = other < *mask ? other : other == other ? *mask : other;
}

#define NARROW(NAME, REAL)                                                                                           \
    extern "C" __global__ void NAME(float* __restrict__ masks, int width, int height, const REAL* __restrict__ others, \
                                    LAYOUT) {                                                                        \
        Layout layout = LAYOUT_GIVEN;                                                                                \
        narrow<REAL>(masks, width, height, others, layout);                                                          \
    }

NARROW(narrow_float, float)
NARROW(narrow_half, half_t)

// Erosion and blur work on one line at a time, along the rows first and along the columns then.

// The line of a mask that an element lies on: where it begins, how far its elements are apart, how many there are, and
// which one this is.
struct Line {
    long long start, step;
    int size, mine;
};

__device__ __forceinline__ bool line_of(Line* line, int pictures, int width, int height, int along_columns) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (long long)pictures * width * height) return false;
    int x = (int)(i % width), y = (int)(i / width % height);
    long long picture = i - x - (long long)y * width;
    line->start = along_columns ? picture + x : picture + (long long)y * width;
    line->step = along_columns ? width : 1;
    line->size = along_columns ? height : width;
    line->mine = along_columns ? y : x;
    return true;
}

// The least value within `reach` on both sides; what lies outside of the mask does not count.
extern "C" __global__ void erode_lines(const float* __restrict__ masks, int pictures, int width, int height, int reach,
                                       int along_columns, float* __restrict__ out) {
    Line line;
    if (!line_of(&line, pictures, width, height, along_columns)) return;
    int last = line.mine + reach < line.size - 1 ? line.mine + reach : line.size - 1;
    float least = masks[line.start + line.mine * line.step];
    for (int i = line.mine > reach ? line.mine - reach : 0; i <= last; i++)
        least = fminf(least, masks[line.start + i * line.step]);
    out[line.start + line.mine * line.step] = least;
}

// A weighted mean of `reach` values on both sides: a box or a Gauss, as the (2*reach + 1) weights are. Beyond its border
// a mask goes on as it ends.
extern "C" __global__ void blur_lines(const float* __restrict__ masks, int pictures, int width, int height, int reach,
                                      const float* __restrict__ weights, int along_columns, float* __restrict__ out) {
    Line line;
    if (!line_of(&line, pictures, width, height, along_columns)) return;
    float sum = 0.0f;
    for (int k = -reach; k <= reach; k++)
        sum += weights[reach + k] * masks[line.start + bounded_int(line.mine + k, 0, line.size - 1) * line.step];
    out[line.start + line.mine * line.step] = sum;
}
