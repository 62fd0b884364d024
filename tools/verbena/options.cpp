// SPDX-License-Identifier: MIT
#include "tools/verbena/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "verbena/net/membership.hpp"

namespace verbena::tool {
namespace {

constexpr int wrong_usage = 2;

void add_devinfo(CLI::App& app, devinfo_options& devinfo) {
  app.add_option("DEVICE", devinfo.device, "The device to show (default: all)")->type_name("");
  app.add_option("--port", devinfo.port, "Show only this port; ports are numbered from 1")
      ->check(CLI::Range(1U, 255U).description(""))
      ->type_name("N");
  auto* const counters =
      app.add_flag("--counters", devinfo.counters, "Show counters instead of attributes");
  auto* const json = app.add_flag("--json", devinfo.json, "Print one JSON object for programs");
  app.add_flag("--prometheus", devinfo.prometheus,
               "With --counters: print them in the text format of\nPrometheus")
      ->needs(counters)
      ->excludes(json);
  app.footer(
      "Shows the attributes of devices and of their ports, and the GID tables.\n"
      "Exit status: 0 success, 1 failure or no device, 2 invalid arguments.");
}

void add_doctor(CLI::App& app, doctor_options& doctor) {
  static const std::map<std::string, wanted_device> kinds = {{"any", wanted_device::any},
                                                             {"kernel", wanted_device::kernel},
                                                             {"hardware", wanted_device::hardware}};
  app.add_option("--require", doctor.require,
                 "The kind of device that must work: any (default),\nkernel (hardware, rxe or siw) "
                 "or hardware")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case).description(""))
      ->type_name("KIND");
  app.add_option("--endpoint", doctor.endpoint,
                 "Check the endpoint of a peer against this host: its\n30 bytes in hexadecimal")
      ->type_name("HEX");
  app.add_option("--root", doctor.root,
                 "Read /proc, /sys, /dev and /etc below FOLDER; the\ndevices themselves are still "
                 "queried on this host")
      ->check(CLI::ExistingDirectory.description(""))
      ->type_name("FOLDER");
  app.add_flag("--json", doctor.json, "Print one JSON object for programs");
  app.footer(
      "Checks what RDMA needs on this host and sends a message through each port.\n"
      "Prints the meaning of each finding and the commands that fix it. Changes\n"
      "nothing.\n"
      "Exit status: 0 RDMA works on this host (the last line names the device), 1 no\n"
      "device works, or none of the kind in --require, 2 invalid arguments.");
}

void add_explain(CLI::App& app, explain_options& explain) {
  app.add_option("CODE", explain.code,
                 "The vendor_err of a completion, decimal or 0x...\n(default: all codes)")
      ->check(CLI::Range(1U, 0xffff'ffffU).description(""))
      ->type_name("");
  app.add_flag("--json", explain.json, "Print a JSON array for programs");
  app.footer(
      "Prints the check of soft0 that failed and its remedy. For a failed completion\n"
      "the library prints the key, the address and the other values as well.\n"
      "Exit status: 0 success, 1 no such code, 2 invalid arguments.");
}

void choose(run_options& run, way wanted) {
  if (run.way != way::automatic && run.way != wanted)
    throw CLI::ParseError("--preload and --dropin cannot be combined: use one of them",
                          CLI::ExitCodes::ExcludesError);
  run.way = wanted;
}

void add_ways(CLI::App& app, run_options& run) {
  app.add_flag_callback(
      "--preload", [&run] { choose(run, way::preload); },
      "Load libverbena-preload.so before the libibverbs that\nPROGRAM is linked to");
  app.add_flag_callback(
      "--dropin", [&run] { choose(run, way::dropin); },
      "Replace the libibverbs and librdmacm that PROGRAM loads");
}

void add_run(CLI::App& app, run_options& run) {
  add_ways(app, run);
  app.add_flag("-v,--verbose", run.verbose,
               "Print the chosen method and the environment to stderr");
  // For the help only: CLI11 does not parse the command line of the program, see split().
  app.add_option("PROGRAM", "The program and its arguments")->type_name("");
  app.footer(
      "Runs an unmodified verbs program on the software device soft0, without an RDMA\n"
      "adapter and without root. Without --preload or --dropin, the method depends on\n"
      "the libraries of the program. Arguments after -- belong to the program.\n"
      "VERBENA_SOFTDEV=only hides hardware from the program.\n"
      "Example, in two terminals:\n"
      "  verbena run -- ib_write_bw\n"
      "  verbena run -- ib_write_bw localhost\n"
      "Exit status: that of the program; 125 `verbena run` failed, 126 the program\n"
      "cannot be executed, 127 the program was not found.");
}

void add_capture(CLI::App& app, capture_options& capture) {
  app.add_option("-w,--write", capture.file,
                 "The file of the capture (default: soft0.pcapng);\n- for standard output")
      ->type_name("FILE");
  app.add_flag("--append", capture.append, "Continue the capture in FILE instead of a new one");
  app.add_option("-s,--snapshot-length", capture.packet_bytes,
                 "Store at most N bytes of each packet (default: all)")
      ->check(CLI::Range(64U, 0xffff'ffffU).description(""))
      ->type_name("N");
  add_ways(app, capture.run);
  app.add_option("PROGRAM", "The program and its arguments, after --")->type_name("");
  app.footer(
      "Runs a verbs program as `verbena run` does, and writes its requests over soft0\n"
      "and the responses to them as RoCE v2 packets, in the format pcapng of Wireshark.\n"
      "The requests of a peer are not captured. For both directions, run the peer with\n"
      "`verbena capture --append` and the same file. Arguments after -- belong to the\n"
      "program. SIGINT, SIGQUIT, SIGTERM and SIGHUP are passed on to the program; those\n"
      "of a terminal, for example by Ctrl-C, reach the program without this command.\n"
      "Example:\n"
      "  verbena capture -w - -- ibv_rc_pingpong -g 0 | tshark -i -\n"
      "Exit status: that of the program, 128 + N if signal N ended it; 125 the capture\n"
      "failed, 126 the program cannot be executed, 127 the program was not found.");
}

void add_launch(CLI::App& app, launch_options& launch) {
  app.add_option("-n,--ranks", launch.ranks,
                 "The number of processes; with --hosts: one for each\nslot by default")
      ->check(CLI::Range(1U, net::max_ranks).description(""))
      ->type_name("N");
  auto* const hosts = app.add_option("--hosts", launch.hosts,
                                     "Start the processes on the hosts of this file, by ssh")
                          ->type_name("FILE");
  app.add_option("--ssh", launch.ssh,
                 "The command that connects to a host (default:\n"
                 "ssh with BatchMode); split at white space")
      ->needs(hosts)
      ->type_name("COMMAND");
  app.add_option("--address", launch.address,
                 "The address at which the processes reach this host\n"
                 "(default: the one from which ssh connects)")
      ->needs(hosts)
      ->type_name("HOST");
  app.add_option("--agent", launch.agent,
                 "The program `verbena` on the hosts (default: the\n"
                 "path of this one if it exists, otherwise by PATH)")
      ->needs(hosts)
      ->type_name("PATH");
  app.add_option("-x", launch.variables,
                 "Pass a variable of the environment to the hosts;\n"
                 "variables that begin with VERBENA_ are passed, except\nthose of the store")
      ->needs(hosts)
      ->expected(1)
      ->take_all()
      ->type_name("NAME[=VALUE]");
  app.add_option("PROGRAM", "The program and its arguments, after --")->type_name("");
  app.footer(
      "Starts N processes of a program, which form a group: they have the ranks 0 to\n"
      "N - 1. This command runs the store through which the processes meet. Sets\n"
      "RANK, LOCAL_RANK, WORLD_SIZE, VERBENA_STORE and a random VERBENA_SECRET, which\n"
      "membership::from_environment() reads. Passes SIGINT and SIGTERM on to the\n"
      "processes. On this host they are in the process group of this command: Ctrl-C\n"
      "reaches them by the terminal, and is not passed on again. The words after --\n"
      "belong to the program.\n"
      "The lines of FILE are [USER@]HOST [slots=N] [max_slots=N] [user=USER]\n"
      "[port=PORT], as those of Open MPI; # begins a comment. A host without slots=\n"
      "runs one process. The hosts need the program verbena, PROGRAM in the same\n"
      "folder, and an SSH key that needs no password. Each line of output begins\n"
      "with the rank, and the processes end when this command ends.\n"
      "Examples:\n"
      "  verbena launch -n 8 -- ./program\n"
      "  verbena launch --hosts hosts -- ./program\n"
      "Exit status: 0 all processes succeeded; otherwise that of the first one that\n"
      "failed, 128 + N if signal N ended it; 125 the command failed, 126 the program\n"
      "cannot be executed, 127 the program was not found.");
}

void add_store(CLI::App& app, store_options& store) {
  app.add_option("--listen", store.listen,
                 "The address of the store (default: 127.0.0.1:29500);\nport 0: any free port")
      ->type_name("HOST:PORT");
  app.footer(
      "Runs a store, through which the ranks of groups meet, until SIGINT or SIGTERM.\n"
      "Prints the value of VERBENA_STORE for the processes of the groups, and at the end\n"
      "its counters. If VERBENA_SECRET is set, the processes must have the same secret.\n"
      "Exit status: 0 success, 1 failure, 2 invalid arguments.");
}

// The arguments of `verbena` and those of the program that `verbena run` starts. Options of `run`
// take no values, so the program begins after `--` or with the first word that is not an option.
struct words {
  std::vector<std::string> ours;
  std::vector<std::string> program;
};

words split(int argc, char** argv) {
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  const bool runs = !all.empty() && all.front() == "run";
  const bool needs_dashes = !all.empty() && (all.front() == "capture" || all.front() == "launch");
  if (!runs && !needs_dashes) return {.ours = all, .program = {}};
  // Options of `capture` and `launch` have values, so these commands need `--` before the program.
  auto end = std::find_if(all.begin() + 1, all.end(), [runs](const std::string& word) {
    return (runs && !word.starts_with('-')) || word == "--";
  });
  words found{.ours = {all.begin(), end}, .program = {}};
  if (end != all.end() && *end == "--") ++end;
  found.program.assign(end, all.end());
  return found;
}

[[noreturn]] void require(const std::string& what) {
  throw CLI::ParseError(what, CLI::ExitCodes::RequiredError);
}

[[noreturn]] void end_with(const CLI::App& app, const CLI::ParseError& problem,
                           const std::string& runner) {
  if (problem.get_exit_code() == 0) std::exit(app.exit(problem));
  const std::string name = runner.empty() ? "verbena" : "verbena " + runner;
  std::cerr << name << ": " << problem.what() << " (see " << name << " --help)\n";
  std::exit(runner.empty() ? wrong_usage : run_status::failed);
}

}  // namespace

command read_command_line(int argc, char** argv) {
  CLI::App app(
      "Shows RDMA devices, diagnoses RDMA on this host, and runs verbs programs on the\nsoftware "
      "device.",
      "verbena");
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.footer(
      "`verbena COMMAND --help` describes a command and its exit statuses.\n"
      "Exit status: that of the command; 2 invalid arguments.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(24);
  devinfo_options devinfo;
  doctor_options doctor;
  run_options run;
  explain_options explain;
  auto& showing = *app.add_subcommand("devinfo", "Show RDMA devices and their ports");
  add_devinfo(showing, devinfo);
  auto& judging = *app.add_subcommand("doctor", "Diagnose why RDMA does not work on this host");
  add_doctor(judging, doctor);
  auto& running = *app.add_subcommand("run", "Run a verbs program on the software device");
  add_run(running, run);
  capture_options capture;
  auto& capturing =
      *app.add_subcommand("capture", "Run a verbs program and write its packets to a file");
  add_capture(capturing, capture);
  auto& explaining = *app.add_subcommand("explain", "Describe vendor error codes of soft0");
  add_explain(explaining, explain);

  launch_options launch;
  auto& launching =
      *app.add_subcommand("launch", "Start the ranks of a group on one or many hosts");
  add_launch(launching, launch);
  auto& assisting = *app.add_subcommand("launch-agent", "Start the ranks of one host")->group("");
  store_options store;
  auto& storing = *app.add_subcommand("store", "Run a store, through which ranks meet");
  add_store(storing, store);

  auto [ours, program] = split(argc, argv);
  const auto runner = [&]() -> std::string {
    for (const auto* const each : {&running, &capturing, &launching})
      if (each->parsed()) return each->get_name();
    return {};
  };
  try {
    std::reverse(ours.begin(), ours.end());  // CLI11 takes them in reverse order
    app.parse(ours);
    if (!runner().empty() && program.empty())
      require("the program is missing; usage: verbena " + runner() +
              (launching.parsed() ? " -n N" : "") + " -- PROGRAM ARGS...");
    if (launching.parsed() && launch.ranks == 0 && launch.hosts.empty())
      require("-n N or --hosts FILE is required");
  } catch (const CLI::ParseError& problem) {
    end_with(app, problem, runner());
  }
  if (showing.parsed()) return devinfo;
  if (judging.parsed()) return doctor;
  if (explaining.parsed()) return explain;
  if (storing.parsed()) return store;
  if (assisting.parsed()) return agent_options{};
  if (launching.parsed()) {
    launch.command = std::move(program);
    return launch;
  }
  if (capturing.parsed()) {
    capture.run.command = std::move(program);
    return capture;
  }
  run.command = std::move(program);
  return run;
}

}  // namespace verbena::tool
