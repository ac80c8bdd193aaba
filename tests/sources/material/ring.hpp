#ifndef RING_HPP
#define RING_HPP

#include <array>
#include <cstddef>
#include "detail/slot.hpp"

namespace ring {

template <typename T, std::size_t N = 16, template <class...> class Slot = detail::slot>
class Ring {
    static_assert(N > 0 && (N & (N - 1)) == 0, "a power of two");

public:
    template <typename... Args>
    bool emplace(Args&&... args) noexcept(std::is_nothrow_constructible_v<T, Args...>) {
        if (size_ >= N) return false;
        slots_[(head_ + size_++) & mask] = Slot<T>{std::forward<Args>(args)...};
        return true;
    }

    [[nodiscard]] auto operator<=>(const Ring<T, N>&) const = default;

    friend std::ostream& operator<<(std::ostream& out, const Ring& ring) {
        return out << '<' << ring.size_ << "|" << N << '>';
    }

private:
    static constexpr std::size_t mask = N - 1;
    std::array<Slot<T>, N> slots_{};  // std::vector<std::pair<int, T>> was slower
    std::size_t head_ = 0, size_ = 0;
};

}  // namespace ring

#endif
