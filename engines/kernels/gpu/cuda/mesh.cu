// The textured mesh: the algorithm of cpu.py, turned round. There a triangle looks for its pixels, here a pixel looks for
// its triangles, in the order in which they are painted: mesh_setup works out each triangle once, mesh_bin marks for each
// tile of the picture the triangles that may touch it, one bit each, and mesh_shade walks through the bits of its tile.

#define EDGES 8    // Doubles of a triangle: three corners from top to bottom but for x2, and three slopes; see below.
#define PLANES 20  // Floats: the first corner, then for u, v and four gains a value and its slopes in x and y.

__device__ __forceinline__ void plane(float* out, double fa, double fb, double fc, double abx, double aby, double acx,
                                      double acy) {
    double b = fb - fa, c = fc - fa;
    out[0] = (float)fa;
    out[1] = (float)(b * acy - c * aby);
    out[2] = (float)(c * abx - b * acx);
}

// The first whole number that is not below a value, as the start or end of a range within 0 to size.
__device__ __forceinline__ int range_end(double value, int size) {
    return (int)fmin((double)size, fmax(0.0, ceil(value)));
}

// boxes (count, 4): rows from, to, columns from, to; empty when the triangle is not painted.
extern "C" __global__ void mesh_setup(const float* __restrict__ xy, const float* __restrict__ uv,
                                      const float* __restrict__ gain, int vertices, const int* __restrict__ triangles,
                                      int count, int width, int height, int* __restrict__ boxes,
                                      double* __restrict__ edges, float* __restrict__ planes) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= count) return;
    int* box = boxes + 4 * t;
    box[0] = box[1] = box[2] = box[3] = 0;
    int a = triangles[3 * t], b = triangles[3 * t + 1], c = triangles[3 * t + 2];
    if (a < 0 || b < 0 || c < 0 || a >= vertices || b >= vertices || c >= vertices) return;
    double ax = xy[2 * a], ay = xy[2 * a + 1], bx = xy[2 * b], by = xy[2 * b + 1], cx = xy[2 * c], cy = xy[2 * c + 1];
    double area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
    // NaN and infinity fail the test too, and what is thinner than this covers no pixel's centre.
    if (!(-1e30 < area && area < -1e-6)) return;
    double x0 = ax, y0 = ay, x1 = bx, y1 = by, x2 = cx, y2 = cy, swap;
    if (y1 < y0) { swap = x0; x0 = x1; x1 = swap; swap = y0; y0 = y1; y1 = swap; }
    if (y2 < y0) { swap = x0; x0 = x2; x2 = swap; swap = y0; y0 = y2; y2 = swap; }
    if (y2 < y1) { swap = x1; x1 = x2; x2 = swap; swap = y1; y1 = y2; y2 = swap; }
    int first = range_end(y0, height), last = range_end(y2, height);
    // A pixel more on both sides: a row's ends are rounded, and may lie a hair outside of the corners.
    int left = range_end(fmin(fmin(x0, x1), x2) - 1.0, width), right = range_end(fmax(fmax(x0, x1), x2) + 1.0, width);
    if (first >= last || left >= right) return;
    box[0] = first; box[1] = last; box[2] = left; box[3] = right;
    double* edge = edges + (long long)EDGES * t;
    edge[0] = x0; edge[1] = y0; edge[2] = x1; edge[3] = y1; edge[4] = y2;
    edge[5] = (x2 - x0) / (y2 - y0);
    edge[6] = y1 > y0 ? (x1 - x0) / (y1 - y0) : 0.0;
    edge[7] = y2 > y1 ? (x2 - x1) / (y2 - y1) : 0.0;
    double abx = (bx - ax) / area, aby = (by - ay) / area, acx = (cx - ax) / area, acy = (cy - ay) / area;
    float* flat = planes + (long long)PLANES * t;
    flat[0] = (float)ax; flat[1] = (float)ay;
    for (int k = 0; k < 2; k++)
        plane(flat + 2 + 3 * k, uv[2 * a + k], uv[2 * b + k], uv[2 * c + k], abx, aby, acx, acy);
    for (int k = 0; k < 4; k++)
        plane(flat + 8 + 3 * k, gain[4 * a + k], gain[4 * b + k], gain[4 * c + k], abx, aby, acx, acy);
}

// One thread for 32 triangles and one tile of the window: x, y, width, height.
extern "C" __global__ void mesh_bin(const int* __restrict__ boxes, int count, int x, int y, int across, int tiles,
                                    unsigned* __restrict__ bits) {
    int words = (count + 31) / 32, word = blockIdx.x * blockDim.x + threadIdx.x;
    if (word >= tiles * words) return;
    int tile = word / words, from = word % words * 32;
    int left = x + tile % across * TILE, top = y + tile / across * TILE;
    unsigned touched = 0;
    for (int i = 0; i < 32 && from + i < count; i++) {
        const int* box = boxes + 4 * (from + i);
        if (box[0] < top + TILE && box[1] > top && box[2] < left + TILE && box[3] > left) touched |= 1u << i;
    }
    bits[word] = touched;
}

__device__ __forceinline__ void shade(float* pixel, float px, float py, const float* __restrict__ flat,
                                      Texture texture) {
    float dx = px - flat[0], dy = py - flat[1], lit[4];
    sample(lit, texture, flat[2] + flat[3] * dx + flat[4] * dy, flat[5] + flat[6] * dx + flat[7] * dy);
    for (int k = 0; k < 4; k++) lit[k] *= flat[8 + 3 * k] + flat[9 + 3 * k] * dx + flat[10 + 3 * k] * dy;
    blend(pixel, lit, lit[3]);
}

extern "C" __global__ void mesh_shade(byte* __restrict__ image, int right, int bottom, int row,
                                      const byte* __restrict__ texels, int texels_x, int texels_y, int texels_row,
                                      int count, int x, int y, int across, const unsigned* __restrict__ bits,
                                      const int* __restrict__ boxes, const double* __restrict__ edges,
                                      const float* __restrict__ planes) {
    int px = x + blockIdx.x * TILE + threadIdx.x, py = y + blockIdx.y * TILE + threadIdx.y;
    if (px >= right || py >= bottom) return;
    Texture texture = {texels, texels_x, texels_y, texels_row};
    int words = (count + 31) / 32;
    const unsigned* mine = bits + (long long)(blockIdx.y * across + blockIdx.x) * words;
    byte* place = image + (long long)py * row + 3 * px;
    float pixel[3];
    bool painted = false;
    for (int word = 0; word < words; word++) {
        for (unsigned left = mine[word]; left; left &= left - 1) {
            int t = word * 32 + __ffs((int)left) - 1;
            const int* box = boxes + 4 * t;
            if (py < box[0] || py >= box[1] || px < box[2] || px >= box[3]) continue;
            const double* edge = edges + (long long)EDGES * t;
            double along = edge[0] + (py - edge[1]) * edge[5];
            double broken = py < edge[3] ? edge[0] + (py - edge[1]) * edge[6] : edge[2] + (py - edge[3]) * edge[7];
            // A centre on an edge belongs to the triangle at its right, and so to one alone.
            if (px < fmin(along, broken) || px >= fmax(along, broken)) continue;
            if (!painted)
                for (int k = 0; k < 3; k++) pixel[k] = (float)place[k];
            painted = true;
            shade(pixel, (float)px, (float)py, planes + (long long)PLANES * t, texture);
        }
    }
    if (painted)
        for (int k = 0; k < 3; k++) place[k] = (byte)(int)pixel[k];
}
