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

/// Lower bound of the write rate of a disk in bytes per second, from which the time limit for
/// storing is derived.
constexpr std::uint64_t min_disk_rate = std::uint64_t{8} << 20;

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

result<std::unique_ptr<chunk_sender>> make_sender(const transfer_parameters& parameters,
                                                  const conversation& with) {
  if (parameters.over == transport::tcp)
    return std::make_unique<tcp_sender>(with, parameters.flow.chunk_bytes);
  VERBENA_TRY(auto side, rdma_side::connect(parameters, copy_end::sender, with));
  return std::make_unique<rdma_sender>(std::move(side), parameters.flow, with);
}

result<std::unique_ptr<chunk_receiver>> make_receiver(const transfer_parameters& parameters,
                                                      const conversation& with) {
  if (parameters.over == transport::tcp)
    return std::make_unique<tcp_receiver>(with, parameters.flow.chunk_bytes);
  VERBENA_TRY(auto side, rdma_side::connect(parameters, copy_end::receiver, with));
  return std::make_unique<rdma_receiver>(std::move(side), parameters.flow, with);
}

/// Sets the checksum and the times of `made`.
result<void> send_chunks(outgoing_file& file, chunk_sender& sender, std::size_t chunk_bytes,
                         progress& shown, outcome& made) {
  running_checksum sum;
  stage_clock clock;
  for (std::uint64_t left = file.size(); left > 0;) {
    VERBENA_TRY(const auto buffer, sender.next_buffer());
    clock.end(stage::transport);
    const auto chunk = buffer.first(std::min<std::uint64_t>(left, chunk_bytes));
    VERBENA_TRY_VOID(file.read(chunk));
    clock.end(stage::file);
    sum.add(chunk);
    clock.end(stage::checksum);
    VERBENA_TRY_VOID(sender.send(chunk.size()));
    left -= chunk.size();
    shown.add(chunk.size());
  }
  VERBENA_TRY_VOID(sender.finish());
  clock.end(stage::transport);
  made.sender = clock.shares();
  made.sum = sum.value();
  return {};
}

/// Sets the checksum and the times of `made`.
result<void> receive_chunks(incoming_file& file, chunk_receiver& receiver, std::size_t chunk_bytes,
                            progress& shown, outcome& made) {
  running_checksum sum;
  stage_clock clock;
  for (std::uint64_t left = made.file_bytes; left > 0;) {
    VERBENA_TRY(const auto chunk, receiver.next(std::min<std::uint64_t>(left, chunk_bytes)));
    clock.end(stage::transport);
    sum.add(chunk);
    clock.end(stage::checksum);
    VERBENA_TRY_VOID(file.write(chunk));
    clock.end(stage::file);
    left -= chunk.size();
    shown.add(chunk.size());
    VERBENA_TRY_VOID(receiver.release());
  }
  VERBENA_TRY_VOID(receiver.finish());
  clock.end(stage::transport);
  made.receiver = clock.shares();
  made.sum = sum.value();
  return {};
}

/// Returns what took the sender's time.
result<time_shares> check_summary(const conversation& with, std::uint64_t file_bytes,
                                  const checksum& sum) {
  VERBENA_TRY(const auto bytes, next_message(with, with.timeout_from_now()));
  VERBENA_TRY(const auto theirs, decode_summary(bytes));
  if (theirs.file_bytes == file_bytes && theirs.sum == sum) return theirs.time;
  return error::protocol("verify", with.peer.peer(),
                         "the received data differ from the sent data (XXH3 " +
                             to_hexadecimal(sum) + ", sent " + to_hexadecimal(theirs.sum) +
                             "): copy the file again");
}

result<outcome> send_and_confirm(outgoing_file& file, const transfer_parameters& parameters,
                                 const conversation& with, progress& shown) {
  VERBENA_TRY(const auto sender, make_sender(parameters, with));
  outcome made{.file_bytes = file.size()};
  const stopwatch copying;
  VERBENA_TRY_VOID(send_chunks(file, *sender, parameters.flow.chunk_bytes, shown, made));
  const summary sent{.file_bytes = file.size(), .sum = made.sum, .time = made.sender};
  VERBENA_TRY_VOID(with.peer.send(encode(sent), with.timeout_from_now()));
  made.copy_seconds = copying.seconds();
  const stopwatch storing;
  const auto store_timeout = with.timeout + std::chrono::seconds(file.size() / min_disk_rate);
  VERBENA_TRY(const auto stored, next_message(with, deadline::after(store_timeout)));
  VERBENA_TRY(made.receiver, decode_stored(stored));
  made.store_seconds = storing.seconds();
  return made;
}

result<outcome> receive_and_store(incoming_file& file, std::uint64_t file_bytes,
                                  const transfer_parameters& parameters, const conversation& with,
                                  progress& shown) {
  VERBENA_TRY(const auto receiver, make_receiver(parameters, with));
  outcome made{.file_bytes = file_bytes};
  const stopwatch copying;
  VERBENA_TRY_VOID(receive_chunks(file, *receiver, parameters.flow.chunk_bytes, shown, made));
  made.copy_seconds = copying.seconds();
  VERBENA_TRY(made.sender, check_summary(with, file_bytes, made.sum));
  const stopwatch storing;
  VERBENA_TRY_VOID(file.store());
  made.store_seconds = storing.seconds();
  // The file is complete, even if the sender can no longer be notified.
  static_cast<void>(with.peer.send(encode(made.receiver), with.timeout_from_now()));
  return made;
}

}  // namespace

result<outcome> send_file(outgoing_file& file, const transfer_parameters& parameters,
                          const conversation& with, progress& shown) {
  auto made = send_and_confirm(file, parameters, with, shown);
  if (!made) refuse(with, one_line(made.error()));
  return made;
}

result<outcome> receive_file(incoming_file file, std::uint64_t file_bytes,
                             const transfer_parameters& parameters, const conversation& with,
                             progress& shown) {
  auto made = receive_and_store(file, file_bytes, parameters, with, shown);
  if (!made) refuse(with, one_line(made.error()));
  return made;
}

std::string one_line(const error& failure) {
  // A refusal of the peer is shown without the call that received it.
  if (failure.is(std::errc::connection_aborted)) return std::string(failure.diagnosis());
  return failure.message();
}

}  // namespace rcopy
