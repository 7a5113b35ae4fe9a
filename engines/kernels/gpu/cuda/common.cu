// What all kernels share. The files of this folder are put together in the order that card.py names, and include nothing.
//
// As on the CPU, the centre of pixel (i, j) lies at (i, j), and images are BGR. Nothing is allocated. Multiplications
// are not fused with additions (--fmad=false), so that a card computes to the bit what a processor computes. What comes
// from outside may be no number, or huge: every place is bounded while it is still a float.

typedef unsigned char byte;
typedef unsigned short half_t;  // The bits of an IEEE half: the header with the real type is not on every machine.

#define TILE 16     // Pixels of a side that one block of threads works on.
#define THREADS 256 // Of a block that sums something up.

__device__ __forceinline__ float bounded(float value, float low, float high) {
    return fminf(fmaxf(value, low), high);  // What is no number becomes low.
}

__device__ __forceinline__ int bounded_int(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

__device__ __forceinline__ byte to_byte(float value) { return (byte)(int)(bounded(value, 0.0f, 255.0f) + 0.5f); }

__device__ __forceinline__ float float_of(unsigned bits) {
    union { unsigned bits; float value; } both;
    both.bits = bits;
    return both.value;
}

__device__ __forceinline__ unsigned bits_of(float value) {
    union { float value; unsigned bits; } both;
    both.value = value;
    return both.bits;
}

// Nearest half, ties to even; what is too large becomes infinity, and no number stays none.
__device__ __forceinline__ half_t to_half(float value) {
    unsigned bits = bits_of(value), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (half_t)(sign | 0x7e00u);
    if (size >= 0x47800000u) return (half_t)(sign | 0x7c00u);
    if (size < 0x38800000u)  // Subnormal: adding a half lets the float's own rounding do the work.
        return (half_t)(sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000u));
    return (half_t)(sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13));
}

__device__ __forceinline__ float from_half(half_t half) {
    unsigned sign = (half & 0x8000u) << 16, size = half & 0x7fffu;
    if (size >= 0x7c00u) return float_of(sign | 0x7f800000u | (size & 0x3ffu) << 13);
    if (size >= 0x400u) return float_of(sign | ((size << 13) + 0x38000000u));
    float value = (float)size * (1.0f / 16777216.0f);
    return sign ? -value : value;
}

__device__ __forceinline__ void put(float* place, float value) { *place = value; }
__device__ __forceinline__ void put(half_t* place, float value) { *place = to_half(value); }
__device__ __forceinline__ float get(const float* place) { return *place; }
__device__ __forceinline__ float get(const half_t* place) { return from_half(*place); }

// Where a bilinear sample is read along one axis: two neighbours, and how much of the second.
struct Span {
    int first, second;
    float part;
};

// The border goes on for ever.
__device__ __forceinline__ Span span_of(float place, int size) {
    float inside = bounded(place, 0.0f, (float)(size - 1));
    Span span;
    span.first = (int)inside;
    span.second = span.first + 1 < size ? span.first + 1 : span.first;
    span.part = inside - (float)span.first;
    return span;
}

__device__ __forceinline__ float mix(float low, float high, float part) { return low + part * (high - low); }

// A texture of four bytes a texel.
struct Texture {
    const byte* texels;
    int width, height, row;

    __device__ __forceinline__ void read(float* out, int x, int y) const {
        const byte* texel = texels + (long long)y * row + 4 * x;
        for (int k = 0; k < 4; k++) out[k] = (float)texel[k];
    }
};

// A bilinear sample of a texture of at least two by two. It lies at most a hair before the last texel, as 16.16 fixed
// point has it, so that there is a right and a lower neighbour.
__device__ __forceinline__ void sample(float* out, const Texture& from, float u, float v) {
    const float hair = 1.0f / 65536.0f;
    u = bounded(u, 0.0f, (float)(from.width - 1) - hair);
    v = bounded(v, 0.0f, (float)(from.height - 1) - hair);
    // A float has no room for the hair in a very large texture.
    int left = bounded_int((int)u, 0, from.width - 2), top = bounded_int((int)v, 0, from.height - 2);
    float right = u - (float)left, below = v - (float)top, near[4], far[4];
    from.read(near, left, top);
    from.read(far, left, top + 1);
    for (int k = 0; k < 4; k++) out[k] = mix(near[k], far[k], below);
    from.read(near, left + 1, top);
    from.read(far, left + 1, top + 1);
    for (int k = 0; k < 4; k++) out[k] = mix(out[k], mix(near[k], far[k], below), right);
}

// Every layer is rounded, as a picture in memory would be.
__device__ __forceinline__ void blend(float* pixel, const float* lit, float opacity) {
    for (int k = 0; k < 3; k++)
        pixel[k] = (float)to_byte(mix(pixel[k], lit[k] < 255.0f ? lit[k] : 255.0f, opacity));
}

// The sum over a block of THREADS threads, in an order that never changes. All of them call it and all get the sum.
template <class Number>
__device__ __forceinline__ Number block_sum(Number value, Number* room) {
    int mine = threadIdx.x;
    room[mine] = value;
    __syncthreads();
    for (int reach = THREADS / 2; reach > 0; reach /= 2) {
        if (mine < reach) room[mine] += room[mine + reach];
        __syncthreads();
    }
    Number sum = room[0];
    __syncthreads();
    return sum;
}

// Pictures of three channels (or one) in any layout: how many values one picture, row, column and channel are on. With a
// boost of b, a finer picture is dealt out by turns to b*b of them.
struct Layout {
    long long picture, down, across, channel;
    int boost;

    __device__ __forceinline__ long long place(int number, int x, int y) const {
        if (boost == 1) return number * picture + y * down + x * across;
        int tile = (number * boost + y % boost) * boost + x % boost;
        return tile * picture + (y / boost) * down + (x / boost) * across;
    }
};

#define LAYOUT long long picture, long long down, long long across, long long channel, int boost
#define LAYOUT_GIVEN {picture, down, across, channel, boost}
