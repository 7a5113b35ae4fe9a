// Mosaics and marks: what hides a face, and what says that one was changed.

// Mean colours of the cells of a grid laid over a window; one block of threads a cell. Of a large window only every so
// many pixels are looked at: (few_x, few_y) is how many of a row and of a column, at most its size.
extern "C" __global__ void cell_means(const byte* __restrict__ image, int row, int x, int y, int width, int height,
                                      int few_x, int few_y, float* __restrict__ cells) {
    __shared__ float room[THREADS];
    int columns = gridDim.x, rows = gridDim.y;
    float left = (float)few_x * blockIdx.x / columns, right = (float)few_x * (blockIdx.x + 1) / columns;
    float top = (float)few_y * blockIdx.y / rows, bottom = (float)few_y * (blockIdx.y + 1) / rows;
    int first_x = (int)left, first_y = (int)top;
    int across = bounded_int((int)ceilf(right), first_x + 1, few_x) - first_x;
    int down = bounded_int((int)ceilf(bottom), first_y + 1, few_y) - first_y;
    float sums[3] = {0.0f, 0.0f, 0.0f};
    for (int i = threadIdx.x; i < across * down; i += THREADS) {
        int column = first_x + i % across, line = first_y + i / across;
        // Pixels at a cell's border belong to it in part.
        float part_x = fminf(column + 1.0f, right) - fmaxf((float)column, left);
        float part_y = fminf(line + 1.0f, bottom) - fmaxf((float)line, top);
        int seen_x = (int)((long long)column * width / few_x), seen_y = (int)((long long)line * height / few_y);
        const byte* pixel = image + (long long)(y + seen_y) * row + 3 * (x + seen_x);
        for (int k = 0; k < 3; k++) sums[k] += part_x * part_y * (float)pixel[k];
    }
    float area = (right - left) * (bottom - top);
    float* cell = cells + 3 * (blockIdx.y * columns + blockIdx.x);
    for (int k = 0; k < 3; k++) {
        float sum = block_sum(sums[k], room);
        if (threadIdx.x == 0) cell[k] = sum / area;
    }
}

// A grid drawn over a window, with soft borders. Each cell is drawn in `steps` equal steps, and only the outermost one
// fades into the neighbour; with one step all of the cell fades.
extern "C" __global__ void stretch_cells(const float* __restrict__ cells, int columns, int rows, int steps,
                                         byte* __restrict__ image, int row, int x, int y, int width, int height) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    Span across = span_of((px + 0.5f) * (float)(columns * steps) / (float)width - 0.5f, columns * steps);
    Span down = span_of((py + 0.5f) * (float)(rows * steps) / (float)height - 0.5f, rows * steps);
    const float* upper = cells + 3 * (down.first / steps) * columns;
    const float* lower = cells + 3 * (down.second / steps) * columns;
    int left = 3 * (across.first / steps), right = 3 * (across.second / steps);
    byte* pixel = image + (long long)(y + py) * row + 3 * (x + px);
    for (int k = 0; k < 3; k++) {
        // Whole levels first, as a small picture has.
        float near = mix(rintf(upper[left + k]), rintf(upper[right + k]), across.part);
        float far = mix(rintf(lower[left + k]), rintf(lower[right + k]), across.part);
        pixel[k] = to_byte(mix(near, far, down.part));
    }
}

// A small picture with opacity, its corner at (x, y); what lies outside is cut off. `keep` is 255 less the opacity, and
// the colours are multiplied by the opacity already.
extern "C" __global__ void paint_sprite(byte* __restrict__ image, int width, int height, int row,
                                        const byte* __restrict__ colour, const byte* __restrict__ keep, int across,
                                        int down, int x, int y) {
    int sx = blockIdx.x * blockDim.x + threadIdx.x, sy = blockIdx.y * blockDim.y + threadIdx.y;
    if (sx >= across || sy >= down) return;
    long long px = (long long)x + sx, py = (long long)y + sy;
    if (px < 0 || py < 0 || px >= width || py >= height) return;
    byte* pixel = image + py * row + 3 * px;
    int place = 3 * (sy * across + sx);
    for (int k = 0; k < 3; k++) {
        int kept = (pixel[k] * keep[place + k] + 127) / 255 + colour[place + k];
        pixel[k] = (byte)(kept < 255 ? kept : 255);
    }
}
