#pragma once
// Runs the CUDA kernels of this project on the CPU, unmodified. Blocks run one after another. A thread of a block is a
// fibre as soon as the first one reaches a barrier; blocks that have no barrier are plain loops.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static

struct Index {
    unsigned x, y, z;
};
struct float3 {
    float x, y, z;
};
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }

static Index threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

constexpr size_t STACK = 256 * 1024;

struct Fibre {
    ucontext_t context;
    std::unique_ptr<char[]> stack{new char[STACK]};
    Index index;
    bool done;
};

static ucontext_t scheduler;
static Fibre* running;
static void (*kernel)(void*);
static void* arguments;

[[noreturn]] static inline void fail(const char* what) {
    std::fprintf(stderr, "cuda shim: %s\n", what);
    std::abort();
}

static inline void barrier() {
    if (!running) fail("a thread reached a barrier that the first thread of its block did not reach");
    swapcontext(&running->context, &scheduler);
}

static inline void enter() {
    kernel(arguments);
    running->done = true;
    swapcontext(&running->context, &scheduler);
}

static inline void resume(Fibre& fibre) {
    running = &fibre;
    threadIdx = fibre.index;
    swapcontext(&scheduler, &fibre.context);
    running = nullptr;
}

static inline void start(Fibre& fibre, Index index) {
    fibre.index = index;
    fibre.done = false;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = STACK;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, enter, 0);
    resume(fibre);
}

static inline Index index_of(unsigned i) {
    return {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

// The fibres of a block; kept for the next one, and never moved.
static inline void run_block(std::vector<std::unique_ptr<Fibre>>& fibres) {
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    if (fibres.empty()) fibres.emplace_back(new Fibre);
    start(*fibres[0], {0, 0, 0});
    if (fibres[0]->done) {
        for (unsigned i = 1; i < threads; i++) {
            threadIdx = index_of(i);
            kernel(arguments);
        }
        return;
    }
    while (fibres.size() < threads) fibres.emplace_back(new Fibre);
    for (unsigned i = 1; i < threads; i++) start(*fibres[i], index_of(i));
    for (;;) {
        unsigned done = 0;
        for (unsigned i = 0; i < threads; i++) done += fibres[i]->done;
        if (done == threads) return;
        if (done) fail("some threads of a block ended before a barrier that others reached");
        for (unsigned i = 0; i < threads; i++) resume(*fibres[i]);
    }
}

// What an argument must be: '*' for an array, its kind (i, u, f) and its bytes, as NumPy has it.
template <class T>
std::string code() {
    if constexpr (std::is_pointer_v<T>)
        return "*" + code<std::remove_cv_t<std::remove_pointer_t<T>>>();
    else
        return (std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T));
}

template <class... A>
const char* signature(void (*)(A...)) {
    static const std::string all = ((code<A>() + " ") + ... + std::string());
    return all.c_str();
}

template <class... A, size_t... I>
void launch(void (*function)(A...), const unsigned* grid, const unsigned* block, void** given,
            std::index_sequence<I...>) {
    struct Call {
        void (*function)(A...);
        void** given;
    } call{function, given};
    arguments = &call;
    kernel = [](void* at) {
        auto* mine = static_cast<Call*>(at);
        mine->function(*static_cast<std::remove_cv_t<A>*>(mine->given[I])...);
    };
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    std::vector<std::unique_ptr<Fibre>> fibres;
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                blockIdx = {x, y, z};
                run_block(fibres);
            }
}

template <class... A>
void launch(void (*function)(A...), const unsigned* grid, const unsigned* block, void** given) {
    launch(function, grid, block, given, std::index_sequence_for<A...>());
}

}  // namespace shim

#define __syncthreads() shim::barrier()
#define HOST_KERNEL(NAME)                                                                               \
    extern "C" const char* signature_##NAME() { return shim::signature(NAME); }                         \
    extern "C" void launch_##NAME(const unsigned* grid, const unsigned* block, void** given) {          \
        shim::launch(NAME, grid, block, given);                                                         \
    }
