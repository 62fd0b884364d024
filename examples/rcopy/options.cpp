// SPDX-License-Identifier: MIT
#include "examples/rcopy/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <map>

namespace rcopy {
namespace {

struct raw_options {
  std::string server;
  double timeout_seconds = 10;
};

std::string check_address(const std::string& text) {
  const auto parsed = verbena::bringup::parse_address(text, default_port);
  return parsed ? std::string() : std::string(parsed.error().diagnosis());
}

void add_timeout(CLI::App& app, raw_options& raw) {
  app.add_option("--timeout", raw.timeout_seconds, "Fail after this time without progress")
      ->check(CLI::Range(0.1, 86400.0).description(""))
      ->type_name("SECONDS")
      ->capture_default_str();
}

void add_copy_options(CLI::App& app, copy_options& copy, raw_options& raw) {
  static const std::map<std::string, transport> transports = {
      {"rdma", transport::rdma}, {"cm", transport::cm}, {"tcp", transport::tcp}};
  app.add_option("SERVER", raw.server, "Address of `rcopy serve`: HOST or HOST:PORT")
      ->required()
      ->type_name("")
      ->check(CLI::Validator(check_address, "", "address"));
  app.add_option("--over", copy.over,
                 "rdma (default); cm: RDMA, connected by rdma_cm, required\n"
                 "for iWARP; tcp: without RDMA, for comparison")
      ->transform(CLI::CheckedTransformer(transports, CLI::ignore_case).description(""))
      ->type_name("TRANSPORT");
  app.add_option("--device", copy.device, "RDMA device (default: an adapter, else soft0)")
      ->type_name("NAME");
  app.add_option("--chunk", copy.chunk_bytes, "Bytes per RDMA write, 4K to 16M (default 1M)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(smallest_chunk, largest_chunk).description(""))
      ->type_name("BYTES");
  app.add_option("--window", copy.window, "Chunks in flight, 1 to 64")
      ->check(CLI::Range(std::uint16_t{1}, largest_window).description(""))
      ->type_name("N")
      ->capture_default_str();
  add_timeout(app, raw);
  app.add_flag("--quiet,-q", copy.quiet, "Show no progress");
  app.add_flag("--json", copy.json, "Print the result as one JSON object");
}

void add_serve(CLI::App& app, serve_options& serve, raw_options& raw) {
  app.add_option("DIR", serve.directory, "The directory to copy from and to")
      ->required()
      ->type_name("");
  app.add_option("--port", serve.at.port, "TCP port to listen at; 0: any free port")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--bind", serve.at.host,
                 "Address to listen at. With 0.0.0.0 or ::, each host that\n"
                 "reaches the port can read and replace the files in DIR")
      ->type_name("ADDR")
      ->capture_default_str();
  app.add_option("--device", serve.device, "RDMA device (default: an adapter, else soft0)")
      ->type_name("NAME");
  app.add_option("--max-clients", serve.max_clients,
                 "Concurrent clients; others wait half of --timeout\n"
                 "and are refused then; they retry until their --timeout")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N")
      ->capture_default_str();
  add_timeout(app, raw);
  app.add_flag("--quiet,-q", serve.quiet, "Print only errors");
}

std::chrono::milliseconds to_timeout(const raw_options& raw) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(raw.timeout_seconds * 1000));
}

void finish(copy_options& copy, const raw_options& raw) {
  copy.server = verbena::bringup::parse_address(raw.server, default_port).value();
  copy.timeout = to_timeout(raw);
}

[[noreturn]] void end_with(const CLI::App& app, const CLI::ParseError& problem) {
  if (problem.get_exit_code() == 0) std::exit(app.exit(problem));
  std::cerr << "rcopy: " << problem.what() << " (see rcopy --help)\n";
  std::exit(2);
}

}  // namespace

const char* name_of(transport over) {
  switch (over) {
    case transport::rdma:
      return "rdma";
    case transport::tcp:
      return "tcp";
    case transport::cm:
      return "cm";
  }
  return "?";
}

command read_command_line(int argc, char** argv) {
  CLI::App app("Copies files between two processes by RDMA.", "rcopy");
  app.footer(
      "Example, in two terminals:\n"
      "  rcopy serve /tmp/inbox\n"
      "  rcopy put big.iso localhost\n"
      "Exit status: 0 success, 1 failure, 2 invalid command line.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(24);

  serve_options serve;
  put_options put;
  get_options get;
  raw_options raw;
  auto& serving = *app.add_subcommand("serve", "Serve the files of a directory");
  add_serve(serving, serve, raw);
  auto& putting = *app.add_subcommand("put", "Copy a file to a server");
  putting.add_option("FILE", put.file, "The file to copy")->required()->type_name("");
  add_copy_options(putting, put.copy, raw);
  putting.add_option("--name", put.name, "Name on the server (default: the name of FILE)")
      ->type_name("NAME");
  auto& getting = *app.add_subcommand("get", "Copy a file from a server");
  getting.add_option("NAME", get.name, "The file's name on the server")->required()->type_name("");
  add_copy_options(getting, get.copy, raw);
  getting.add_option("--output,-o", get.output, "Path of the copy (default: ./NAME)")
      ->type_name("FILE");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    end_with(app, problem);
  }
  if (serving.parsed()) {
    serve.timeout = to_timeout(raw);
    return serve;
  }
  finish(put.copy, raw);
  finish(get.copy, raw);
  if (putting.parsed()) return put;
  return get;
}

}  // namespace rcopy
