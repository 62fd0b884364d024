// SPDX-License-Identifier: MIT
#include "examples/rcopy/session.hpp"

#include <algorithm>
#include <utility>

namespace rcopy {
namespace {

using verbena::result;

/// Receives the client's request. Answers an invalid request with an error.
result<request> next_request(const conversation& with) {
  VERBENA_TRY(const auto bytes, next_message(with, with.timeout_from_now()));
  auto wanted = decode_request(bytes);
  if (!wanted) refuse(with, wanted.error().diagnosis());
  return wanted;
}

result<outcome> agree_and_copy(const request& wanted, const directory& files,
                               const transfer_parameters& parameters, const conversation& with) {
  progress shown(wanted.name, wanted.file_bytes, progress::display::none);
  reply answer{.flow = parameters.flow, .file_bytes = wanted.file_bytes};
  if (wanted.what == operation::put) {
    auto file = incoming_file::create(files, wanted.name, wanted.file_bytes);
    if (!file) {
      refuse(with, one_line(file.error()));
      return std::move(file).error();
    }
    VERBENA_TRY_VOID(with.peer.send(encode(answer), with.timeout_from_now()));
    return receive_file(*std::move(file), wanted.file_bytes, parameters, with, shown);
  }
  auto file = outgoing_file::open_in(files, wanted.name);
  if (!file) {
    refuse(with, one_line(file.error()));
    return std::move(file).error();
  }
  answer.file_bytes = file->size();
  VERBENA_TRY_VOID(with.peer.send(encode(answer), with.timeout_from_now()));
  return send_file(*file, parameters, with, shown);
}

std::string success_line(const request& wanted, const outcome& made, const std::string& client) {
  const auto bytes = static_cast<double>(made.file_bytes);
  const double rate = made.copy_seconds > 0 ? bytes / made.copy_seconds : 0;
  return std::string(wanted.what == operation::put ? "stored " : "sent ") + wanted.name + ", " +
         bytes_text(bytes) + (wanted.what == operation::put ? " from " : " to ") + client + " at " +
         bytes_text(rate) + "/s" +
         (wanted.over == transport::rdma ? "" : std::string(" over ") + name_of(wanted.over));
}

}  // namespace

session_report serve_client(verbena::bringup::stream& client, const directory& files,
                            const verbena::context& device, const serve_options& options,
                            int interrupted_fd) {
  const conversation with{
      .peer = client, .timeout = options.timeout, .interrupted_fd = interrupted_fd};
  const auto wanted = next_request(with);
  if (!wanted) return {client.peer() + ": " + one_line(wanted.error()), false};
  const transfer_parameters parameters{.over = wanted->over,
                                       .side = side::server,
                                       .flow = wanted->flow,
                                       .device = &device,
                                       .device_name = options.device};
  const auto made = agree_and_copy(*wanted, files, parameters, with);
  if (!made)
    return {client.peer() + ": " + (wanted->what == operation::put ? "put " : "get ") +
                wanted->name + ": " + one_line(made.error()),
            false};
  return {success_line(*wanted, *made, client.peer()), true};
}

}  // namespace rcopy
