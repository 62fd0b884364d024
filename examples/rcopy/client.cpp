// SPDX-License-Identifier: MIT
#include "examples/rcopy/client.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "examples/rcopy/checksum.hpp"
#include "examples/rcopy/interruption.hpp"
#include "examples/rcopy/protocol.hpp"
#include "examples/rcopy/transfer.hpp"
#include "verbena/base/random.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/device_list.hpp"

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;
using verbena::bringup::stream;

constexpr std::chrono::nanoseconds shortest_pause = std::chrono::milliseconds(50);
constexpr std::chrono::nanoseconds longest_pause = std::chrono::seconds(1);

/// The values of the final message other than the result.
struct report {
  const char* command;
  const copy_options& options;
  std::string name;
  std::string device;
};

double rate_of(const outcome& made) {
  return made.copy_seconds > 0 ? static_cast<double>(made.file_bytes) / made.copy_seconds : 0;
}

/// `file` is the name of the stage that reads or writes the file.
nlohmann::ordered_json to_json(const time_shares& time, const char* file) {
  const auto seconds = [](std::chrono::microseconds stage) {
    return std::chrono::duration<double>(stage).count();
  };
  return {{file, seconds(time.file)},
          {"checksum_seconds", seconds(time.checksum)},
          {"transport_seconds", seconds(time.transport)},
          {"waiting_seconds", seconds(time.waiting)}};
}

void print_json(const report& about, const result<outcome>& made) {
  nlohmann::ordered_json json{{"command", about.command},
                              {"name", about.name},
                              {"server", to_string(about.options.server)},
                              {"over", name_of(about.options.over)},
                              {"ok", made.has_value()}};
  if (!about.device.empty()) json["device"] = about.device;
  if (made) {
    json["bytes"] = made->file_bytes;
    json["copy_seconds"] = made->copy_seconds;
    json["store_seconds"] = made->store_seconds;
    json["bytes_per_second"] = rate_of(*made);
    json["xxh3_128"] = to_hexadecimal(made->sum);
    json["sender"] = to_json(made->sender, "read_seconds");
    json["receiver"] = to_json(made->receiver, "write_seconds");
  } else {
    json["error"] = one_line(made.error());
  }
  // A file name can contain bytes that are not UTF-8.
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

int print(const report& about, const result<outcome>& made) {
  if (about.options.json) print_json(about, made);
  if (!made) {
    std::cerr << "rcopy: " << about.command << ": " << one_line(made.error()) << '\n';
    return 1;
  }
  if (about.options.json || about.options.quiet) return 0;
  std::cout << about.name << ": " << bytes_text(static_cast<double>(made->file_bytes)) << " over "
            << name_of(about.options.over)
            << (about.device.empty() ? "" : " (" + about.device + ")") << " in "
            << seconds_text(made->copy_seconds) << ", " << bytes_text(rate_of(*made))
            << "/s\nXXH3 verified; on disk " << seconds_text(made->store_seconds) << " later\n";
  return 0;
}

result<std::optional<verbena::context>> open_device(const copy_options& options) {
  if (options.over != transport::rdma) return std::optional<verbena::context>();
  auto opened =
      options.device.empty() ? verbena::open_device() : verbena::open_device(options.device);
  if (!opened) return std::move(opened).error();
  return std::optional(*std::move(opened));
}

/// The connection to a server that accepted the request, and its reply.
struct agreement {
  stream server;
  rcopy::reply reply;
};

/// Connects, sends the request and waits for the server's reply.
result<agreement> send_request_once(const copy_options& options, const request& wanted,
                                    verbena::deadline until) {
  VERBENA_TRY(auto server, stream::connect(options.server, until));
  VERBENA_TRY(const auto answer, server.exchange(encode(wanted), until));
  VERBENA_TRY(const auto agreed, decode_reply(answer));
  const bool within = agreed.flow.chunk_bytes <= wanted.flow.chunk_bytes &&
                      agreed.flow.window <= wanted.flow.window;
  if (!within)
    return error::protocol("copy", server.peer(),
                           "the server's chunk size or window exceeds the requested value");
  return agreement{.server = std::move(server), .reply = agreed};
}

/// Sends the request. If the server is busy, sends it again at growing intervals until the timeout.
result<agreement> send_request(const copy_options& options, const request& wanted) {
  const auto until = verbena::deadline::after(options.timeout);
  std::optional<error> busy;
  for (auto pause = shortest_pause;; pause = std::min(2 * pause, longest_pause)) {
    auto made = send_request_once(options, wanted, until);
    if (made) return made;
    const bool is_busy = made.error().message().find(busy_reason) != std::string::npos;
    // A timeout in the queue of a busy server: the refusal says more.
    if (!is_busy && !(busy && made.error().kind() == verbena::error_kind::timed_out)) return made;
    if (is_busy) busy = std::move(made).error();
    // Different for each client: clients that were refused together do not return together.
    const auto wait = pause / 2 + pause * verbena::random_u32() / (2 * (std::int64_t{1} << 32));
    if (until.expired() || until.when() - verbena::deadline::clock::now() < wait)
      return *std::move(busy);
    static_cast<void>(::poll(nullptr, 0, verbena::deadline::after(wait).poll_timeout_ms()));
  }
}

request request_for(operation what, const copy_options& options, std::string name) {
  return {.what = what,
          .over = options.over,
          .flow = {.chunk_bytes = options.chunk_bytes, .window = options.window},
          .name = std::move(name)};
}

transfer_parameters parameters_for(const copy_options& options, const reply& agreed,
                                   const std::optional<verbena::context>& device) {
  return {.over = options.over,
          .side = side::client,
          .flow = agreed.flow,
          .device = device ? &*device : nullptr,
          .device_name = options.device};
}

std::string last_part(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

progress::display display_of(const copy_options& options) {
  return options.quiet ? progress::display::none : progress::display::as_fits;
}

result<outcome> put(const put_options& options, report& about) {
  VERBENA_TRY_VOID(check_name(about.name));
  VERBENA_TRY(auto file, outgoing_file::open(options.file));
  VERBENA_TRY(const auto device, open_device(options.copy));
  if (device) about.device = device->name();
  auto wanted = request_for(operation::put, options.copy, about.name);
  wanted.file_bytes = file.size();
  VERBENA_TRY(auto agreed, send_request(options.copy, wanted));

  const interruption interrupted;
  const conversation with{
      .peer = agreed.server, .timeout = options.copy.timeout, .interrupted_fd = interrupted.fd()};
  progress shown(about.name, file.size(), display_of(options.copy));
  const transfer_parameters parameters = parameters_for(options.copy, agreed.reply, device);
  return send_file(file, parameters, with, shown);
}

result<outcome> get(const get_options& options, report& about) {
  VERBENA_TRY_VOID(check_name(about.name));
  const auto output = options.output.empty() ? about.name : options.output;
  const auto slash = output.find_last_of('/');
  VERBENA_TRY(
      const auto into,
      directory::open(slash == std::string::npos ? std::string(".") : output.substr(0, slash + 1)));
  VERBENA_TRY_VOID(check_name(last_part(output)));
  into.remove_stale_temporaries();
  VERBENA_TRY(const auto device, open_device(options.copy));
  if (device) about.device = device->name();
  VERBENA_TRY(auto agreed,
              send_request(options.copy, request_for(operation::get, options.copy, about.name)));

  const interruption interrupted;
  const conversation with{
      .peer = agreed.server, .timeout = options.copy.timeout, .interrupted_fd = interrupted.fd()};
  auto file = incoming_file::create(into, last_part(output), agreed.reply.file_bytes);
  if (!file) {
    refuse(with, one_line(file.error()));
    return std::move(file).error();
  }
  progress shown(about.name, agreed.reply.file_bytes, display_of(options.copy));
  const transfer_parameters parameters = parameters_for(options.copy, agreed.reply, device);
  return receive_file(*std::move(file), agreed.reply.file_bytes, parameters, with, shown);
}

}  // namespace

int run(const put_options& options) {
  report about{.command = "put",
               .options = options.copy,
               .name = options.name.empty() ? last_part(options.file) : options.name,
               .device = {}};
  const auto made = put(options, about);
  return print(about, made);
}

int run(const get_options& options) {
  report about{.command = "get", .options = options.copy, .name = options.name, .device = {}};
  const auto made = get(options, about);
  return print(about, made);
}

}  // namespace rcopy
