// SPDX-License-Identifier: MIT
#include "examples/rcopy/transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "examples/rcopy/checksum.hpp"
#include "examples/rcopy/chunks_rdma.hpp"
#include "examples/rcopy/chunks_tcp.hpp"

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::error;
using verbena::result;

/// Lower bound of the write rate of a disk, from which the time limit for storing is derived.
constexpr std::uint64_t slowest_disk = std::uint64_t{8} << 20;

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

result<std::unique_ptr<chunk_sender>> make_sender(const way& by, const conversation& with) {
  if (by.over == transport::tcp) return std::make_unique<tcp_sender>(with, by.flow.chunk_bytes);
  VERBENA_TRY(auto side, rdma_side::connect(by, copy_end::sender, with));
  return std::make_unique<rdma_sender>(std::move(side), by.flow, with);
}

result<std::unique_ptr<chunk_receiver>> make_receiver(const way& by, const conversation& with) {
  if (by.over == transport::tcp) return std::make_unique<tcp_receiver>(with, by.flow.chunk_bytes);
  VERBENA_TRY(auto side, rdma_side::connect(by, copy_end::receiver, with));
  return std::make_unique<rdma_receiver>(std::move(side), by.flow, with);
}

result<checksum> send_chunks(outgoing_file& file, chunk_sender& sender, std::size_t chunk_bytes,
                             progress& shown) {
  running_checksum sum;
  for (std::uint64_t left = file.size(); left > 0;) {
    VERBENA_TRY(const auto room, sender.room());
    const auto chunk = room.first(std::min<std::uint64_t>(left, chunk_bytes));
    VERBENA_TRY_VOID(file.read(chunk));
    sum.add(chunk);
    VERBENA_TRY_VOID(sender.send(chunk.size()));
    left -= chunk.size();
    shown.add(chunk.size());
  }
  VERBENA_TRY_VOID(sender.finish());
  return sum.value();
}

result<checksum> receive_chunks(incoming_file& file, std::uint64_t file_bytes,
                                chunk_receiver& receiver, std::size_t chunk_bytes,
                                progress& shown) {
  running_checksum sum;
  for (std::uint64_t left = file_bytes; left > 0;) {
    VERBENA_TRY(const auto chunk, receiver.next(std::min<std::uint64_t>(left, chunk_bytes)));
    sum.add(chunk);
    VERBENA_TRY_VOID(file.write(chunk));
    left -= chunk.size();
    shown.add(chunk.size());
    VERBENA_TRY_VOID(receiver.give_back());
  }
  VERBENA_TRY_VOID(receiver.finish());
  return sum.value();
}

result<void> check_summary(const conversation& with, std::uint64_t file_bytes,
                           const checksum& sum) {
  VERBENA_TRY(const auto bytes, next_message(with, with.patience()));
  VERBENA_TRY(const auto theirs, decode_summary(bytes));
  if (theirs.file_bytes == file_bytes && theirs.sum == sum) return {};
  return error::protocol("verify", with.peer.peer(),
                         "what arrived is not what was sent (XXH3 " + to_hexadecimal(sum) +
                             ", sent " + to_hexadecimal(theirs.sum) + "): try again");
}

result<outcome> send_and_confirm(outgoing_file& file, const way& by, const conversation& with,
                                 progress& shown) {
  VERBENA_TRY(const auto sender, make_sender(by, with));
  outcome made{.file_bytes = file.size()};
  const stopwatch copying;
  VERBENA_TRY(made.sum, send_chunks(file, *sender, by.flow.chunk_bytes, shown));
  VERBENA_TRY_VOID(
      with.peer.send(encode(summary{.file_bytes = file.size(), .sum = made.sum}), with.patience()));
  made.copy_seconds = copying.seconds();
  const stopwatch storing;
  const auto patience = with.timeout + std::chrono::seconds(file.size() / slowest_disk);
  VERBENA_TRY_VOID(next_message(with, deadline::after(patience)));
  made.store_seconds = storing.seconds();
  return made;
}

result<outcome> receive_and_store(incoming_file& file, std::uint64_t file_bytes, const way& by,
                                  const conversation& with, progress& shown) {
  VERBENA_TRY(const auto receiver, make_receiver(by, with));
  outcome made{.file_bytes = file_bytes};
  const stopwatch copying;
  VERBENA_TRY(made.sum, receive_chunks(file, file_bytes, *receiver, by.flow.chunk_bytes, shown));
  made.copy_seconds = copying.seconds();
  VERBENA_TRY_VOID(check_summary(with, file_bytes, made.sum));
  const stopwatch storing;
  VERBENA_TRY_VOID(file.store());
  made.store_seconds = storing.seconds();
  // The file is complete, even if the sender can no longer be notified.
  static_cast<void>(with.peer.send({}, with.patience()));
  return made;
}

}  // namespace

result<outcome> send_file(outgoing_file& file, const way& by, const conversation& with,
                          progress& shown) {
  auto made = send_and_confirm(file, by, with, shown);
  if (!made) refuse(with, one_line(made.error()));
  return made;
}

result<outcome> receive_file(incoming_file file, std::uint64_t file_bytes, const way& by,
                             const conversation& with, progress& shown) {
  auto made = receive_and_store(file, file_bytes, by, with, shown);
  if (!made) refuse(with, one_line(made.error()));
  return made;
}

std::string one_line(const error& why) {
  // Only the peer's message matters, not the call that received it.
  if (why.is(std::errc::connection_aborted)) return std::string(why.diagnosis());
  return why.message();
}

}  // namespace rcopy
