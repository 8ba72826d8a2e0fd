// The thresholds that pv.qnt reads, one after the other, and its result (guide, "Threshold quantisation").
#pragma once
#include <cstdint>

namespace harness {

class ThresholdSearch {
  public:
    // `width`: bits of a code.
    ThresholdSearch(uint32_t pixels, uint32_t middle, uint32_t width) : width_(width) {
        const uint32_t distance = 2u << width;  // from the thresholds of one pixel to those of the next
        places_[0] = middle & ~1u;
        places_[1] = (middle & 0xFFFF0000u) | ((places_[0] + distance) & 0xFFFFu);
        pixels_[0] = static_cast<int16_t>(pixels);
        pixels_[1] = static_cast<int16_t>(pixels >> 16);
    }

    bool done() const { return bits_ == width_; }

    // Of the next threshold.
    uint32_t address() const { return places_[pixel_]; }

    void answer(uint32_t threshold) {
        const bool above = pixels_[pixel_] > static_cast<int16_t>(threshold);
        const uint32_t step = (1u << (width_ - 1)) >> bits_;
        uint32_t& place = places_[pixel_];
        place = (place & ~BLOCK) | ((above ? place + step : place - step) & BLOCK);
        codes_[pixel_] += above ? step : 0;
        bits_ += pixel_;
        pixel_ ^= 1;
    }

    // Counts of thresholds below the pixels, less half of the codes.
    uint32_t result() const {
        const uint32_t half = 1u << (width_ - 1), mask = 2 * half - 1;
        return ((codes_[1] - half) & mask) << width_ | ((codes_[0] - half) & mask);
    }

  private:
    static constexpr uint32_t BLOCK = 63;
    const uint32_t width_;
    uint32_t places_[2], codes_[2] = {0, 0}, bits_ = 0, pixel_ = 0;
    int32_t pixels_[2];
};

}  // namespace harness
