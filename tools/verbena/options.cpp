// SPDX-License-Identifier: MIT
#include "tools/verbena/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>

namespace verbena::tool {
namespace {

constexpr int wrong_usage = 2;

void add_devinfo(CLI::App& app, devinfo_options& devinfo) {
  app.add_option("DEVICE", devinfo.device, "The device to show (default: all)")->type_name("");
  app.add_option("--port", devinfo.port, "Show this port only; ports count from 1")
      ->check(CLI::Range(1U, 255U).description(""))
      ->type_name("N");
  app.add_flag("--json", devinfo.json, "Print one JSON object for programs");
  app.footer(
      "Shows all that a device tells about itself, its ports and their GID tables.\n"
      "Exit status: 0 done, 1 failed or no device, 2 wrong usage.");
}

void add_doctor(CLI::App& app, doctor_options& doctor) {
  static const std::map<std::string, wanted_device> kinds = {{"any", wanted_device::any},
                                                             {"kernel", wanted_device::kernel},
                                                             {"hardware", wanted_device::hardware}};
  app.add_option("--require", doctor.require,
                 "What has to work: any (default), kernel (hardware,\nrxe or siw) or hardware")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case).description(""))
      ->type_name("KIND");
  app.add_option("--endpoint", doctor.endpoint,
                 "Compare with a peer's endpoint: its 30 bytes in\nbase 16")
      ->type_name("HEX");
  app.add_option("--root", doctor.root,
                 "Read /proc, /sys, /dev and /etc below FOLDER\ninstead; devices are asked as ever")
      ->check(CLI::ExistingDirectory.description(""))
      ->type_name("FOLDER");
  app.add_flag("--json", doctor.json, "Print one JSON object for programs");
  app.footer(
      "Looks at everything that RDMA needs here, sends a message through each port,\n"
      "and says what each finding means and the command that changes it. It changes\n"
      "nothing itself.\n"
      "Exit status: 0 RDMA can work here (the last line says on which device), 1 it\n"
      "cannot, or not on what --require asks for, 2 wrong usage.");
}

void choose(run_options& run, way wanted) {
  if (run.way != way::automatic && run.way != wanted)
    throw CLI::ParseError("--preload and --dropin exclude each other",
                          CLI::ExitCodes::ExcludesError);
  run.way = wanted;
}

void add_run(CLI::App& app, run_options& run) {
  app.add_flag_callback(
      "--preload", [&run] { choose(run, way::preload); },
      "Put our verbs in front of the libibverbs that PROGRAM\nlinks");
  app.add_flag_callback(
      "--dropin", [&run] { choose(run, way::dropin); },
      "Replace the libibverbs that PROGRAM loads");
  app.add_flag("-v,--verbose", run.verbose, "Say on stderr what is done, and why");
  // For the help only: the words of the program are never shown to CLI11, see split().
  app.add_option("PROGRAM", "The program, with its arguments behind it")->type_name("");
  app.footer(
      "Runs an unmodified verbs program on the software device soft0: no NIC, no\n"
      "root. Without --preload and --dropin the way is chosen by what the program\n"
      "links. Words after -- are never options of `verbena run`.\n"
      "VERBENA_SOFTDEV=only hides hardware from the program.\n"
      "Example, in two terminals:\n"
      "  verbena run -- ib_write_bw\n"
      "  verbena run -- ib_write_bw localhost\n"
      "Exit status: the program's own; 125 `verbena run` failed, 126 the program\n"
      "cannot be run, 127 there is no such program.");
}

// The words for us and those of the program that `verbena run` is to start. Options of `run` take
// no values, so the program begins after `--` or with the first word that is no option.
struct words {
  std::vector<std::string> ours;
  std::vector<std::string> program;
};

words split(int argc, char** argv) {
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  if (all.empty() || all.front() != "run") return {.ours = all, .program = {}};
  auto end = std::find_if(all.begin() + 1, all.end(), [](const std::string& word) {
    return !word.starts_with('-') || word == "--";
  });
  words found{.ours = {all.begin(), end}, .program = {}};
  if (end != all.end() && *end == "--") ++end;
  found.program.assign(end, all.end());
  return found;
}

[[noreturn]] void end_with(const CLI::App& app, const CLI::ParseError& problem, bool is_run) {
  if (problem.get_exit_code() == 0) std::exit(app.exit(problem));
  const char* const name = is_run ? "verbena run" : "verbena";
  std::cerr << name << ": " << problem.what() << " (see " << name << " --help)\n";
  std::exit(is_run ? run_status::failed : wrong_usage);
}

}  // namespace

command read_command_line(int argc, char** argv) {
  CLI::App app("RDMA devices, and a software one for programs without hardware.", "verbena");
  app.set_version_flag("--version", "verbena " VERBENA_VERSION);
  app.footer("`verbena COMMAND --help` says more. Exit status: see there; 2 wrong usage.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(24);
  devinfo_options devinfo;
  doctor_options doctor;
  run_options run;
  auto& showing = *app.add_subcommand("devinfo", "Show RDMA devices and their ports");
  add_devinfo(showing, devinfo);
  auto& judging = *app.add_subcommand("doctor", "Say what keeps RDMA from working here");
  add_doctor(judging, doctor);
  auto& running = *app.add_subcommand("run", "Run a verbs program on the software device");
  add_run(running, run);

  auto [ours, program] = split(argc, argv);
  try {
    std::reverse(ours.begin(), ours.end());  // as CLI11 takes them
    app.parse(ours);
    if (running.parsed() && program.empty())
      throw CLI::ParseError("no program is named: verbena run -- PROGRAM ARGS...",
                            CLI::ExitCodes::RequiredError);
  } catch (const CLI::ParseError& problem) {
    end_with(app, problem, running.parsed());
  }
  if (showing.parsed()) return devinfo;
  if (judging.parsed()) return doctor;
  run.command = std::move(program);
  return run;
}

}  // namespace verbena::tool
