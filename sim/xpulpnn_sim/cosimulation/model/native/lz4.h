// The two functions of liblz4 that Verilator's FST writer calls, so that waveforms need no lz4 development files.
// Blocks are valid LZ4 but nothing is compressed: one sequence of literals. The writer keeps whichever form is
// smaller, and zlib compresses the bulk of a waveform anyway.
#pragma once
#include <cstdint>
#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
    constexpr int NIBBLE = 15, BYTE = 255;
    if (capacity < LZ4_compressBound(size)) return 0;
    char* out = target;
    int rest = size - NIBBLE;
    *out++ = static_cast<char>((rest < 0 ? size : NIBBLE) << 4);
    if (rest >= 0) {
        for (; rest >= BYTE; rest -= BYTE) *out++ = static_cast<char>(BYTE);
        *out++ = static_cast<char>(rest);
    }
    std::memcpy(out, source, size);
    return static_cast<int>(out - target) + size;
}
