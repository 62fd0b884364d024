// SPDX-License-Identifier: MIT
#include "softdev/peers/remote_process.hpp"

namespace verbena::softdev {

void remote_process::begin_watch(std::uint64_t generation) noexcept {
  generation_ = generation;
  watch_ = process_watch(pid_);
}

copy_outcome remote_process::read(std::span<const iovec> local,
                                  std::span<const iovec> remote) noexcept {
  if (!routes().read) return {copy_status::not_permitted, 0};
  const auto outcome = remote_read(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) closed_ = true;
  return outcome;
}

copy_outcome remote_process::write(std::span<const iovec> local,
                                   std::span<const iovec> remote) noexcept {
  if (!routes().write) return {copy_status::not_permitted, 0};
  const auto outcome = remote_write(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) closed_ = true;
  return outcome;
}

}  // namespace verbena::softdev
