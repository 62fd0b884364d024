// SPDX-License-Identifier: MIT
// The files of procfs and sysfs with any content, in a folder that is read instead of `/`.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <ios>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/diagnose/files.hpp"
#include "tests/fuzz/target.hpp"
#include "verbena/diagnose/device_facts.hpp"
#include "verbena/diagnose/examine.hpp"
#include "verbena/diagnose/host_facts.hpp"

namespace verbena::diagnose {
namespace {

using fuzz::require;

constexpr std::array files = {
    "proc/self/limits",
    "proc/self/status",
    "proc/self/uid_map",
    "proc/self/cgroup",
    "proc/modules",
    "proc/net/route",
    "proc/net/ipv6_route",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/yama/ptrace_scope",
    "run/systemd/container",
    "sys/bus/pci/devices/0000:3b:00.0/class",
    "sys/bus/pci/devices/0000:3b:00.0/vendor",
    "sys/bus/pci/devices/0000:3b:00.0/device",
    "sys/class/net/eth0/mtu",
    "sys/class/net/eth0/flags",
    "sys/class/net/eth0/operstate",
    "sys/class/net/eth0/type",
    "sys/class/infiniband/mlx5_0/node_guid",
    "sys/class/infiniband_verbs/uverbs0/ibdev",
    "sys/fs/cgroup/rdma.max",
    "sys/fs/cgroup/rdma.current",
    "sys/fs/cgroup/rdma/a/rdma.max",
};

/// A folder with the files, which is removed at exit. Empty files between two inputs.
class host_folder {
 public:
  host_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    root_ = name;
    for (const char* const file : files) {
      std::filesystem::create_directories((root_ / file).parent_path());
      write(file, {});
    }
  }
  host_folder(const host_folder&) = delete;
  host_folder& operator=(const host_folder&) = delete;
  ~host_folder() {
    std::error_code failed;
    std::filesystem::remove_all(root_, failed);
  }

  void set(std::size_t index, std::string_view content) {
    write(files[index], content);
    changed_.insert(index);
  }
  void clear() {
    for (const std::size_t each : changed_) write(files[each], {});
    changed_.clear();
  }
  [[nodiscard]] std::string root() const { return root_.string(); }

 private:
  void write(const char* file, std::string_view content) const {
    std::ofstream out(root_ / file, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    require(out.good());
  }

  std::filesystem::path root_;
  std::set<std::size_t> changed_;
};

void check_facts(const host_facts& got) {
  for (const auto& each : got.routes) require(!each.interface.empty());
  for (const auto& each : got.interfaces) require(each.name == "eth0");
  for (const auto& each : got.adapters) require(!each.maker.empty() && !each.module.empty());
  for (const auto& each : got.group_limits) require(!each.file.empty() && !each.device.empty());
  for (const auto& each : got.loaded)
    require(!each.empty() && each.find_first_of(" \t\n") == std::string::npos);
  for (const finding& each : examine(got, {}))
    require(!each.topic.empty() && !each.meaning.empty());
  static_cast<void>(best_usable(got, {}));
}

// Any text: lines contain no line ends, words no blanks, and all of them are in the text.
void check_text(std::string_view text) {
  std::size_t bytes = 0;
  for (const auto line : detail::lines_of(text)) {
    require(line.find('\n') == std::string_view::npos);
    bytes += line.size() + 1;
    for (const auto word : detail::words_of(line))
      require(!word.empty() && word.find_first_of(" \t\r\n") == std::string_view::npos);
  }
  require(bytes <= text.size() + 1);
  if (const auto number = detail::number_of(text))
    require(detail::number_of(std::to_string(*number)) == number);
}

// Contents of files: the index of a file, the size, the bytes.
void run_host_files(fuzz::input input) {
  static host_folder folder;
  fuzz::reader from(input);
  while (!from.empty()) {
    const std::size_t index = from.take<std::uint8_t>() % files.size();
    const std::string content = fuzz::text_of(from.take_bytes(from.take<std::uint16_t>()));
    check_text(content);
    folder.set(index, content);
  }
  const std::string root = folder.root();
  check_facts(gather_host_facts(
      {.root = root, .environment = [](const char*) -> const char* { return nullptr; }}));
  static_cast<void>(has_ipv6_gateway("eth0", root));
  folder.clear();
}

void host_file_seeds(fuzz::seed_folder& into) {
  const auto add = [&](const char* name,
                       std::initializer_list<std::pair<int, std::string_view>> contents) {
    fuzz::writer out;
    for (const auto& [index, text] : contents)
      out.put(static_cast<std::uint8_t>(index))
          .put(static_cast<std::uint16_t>(text.size()))
          .put(std::as_bytes(std::span(text)));
    into.add(name, out.bytes());
  };
  add("limits",
      {{0,
        "Limit   Soft Limit  Hard Limit  Units\nMax locked memory  8388608  unlimited  bytes\n"
        "Max open files  1024  524288  files\n"}});
  add("status", {{1, "Name:\tcat\nCapEff:\t000001ffffffffff\nSeccomp:\t2\n"},
                 {2, "         0       1000          1\n"},
                 {8, "1\n"}});
  add("groups", {{3, "0::/a/b\n3:rdma:/a\n"},
                 {19, "mlx5_0 hca_handle=2 hca_object=max\n"},
                 {20, "mlx5_0 hca_handle=1 hca_object=20\n"},
                 {21, "mlx5_0 hca_object=5\n"}});
  add("modules", {{4, "rdma_rxe 1 0 - Live 0x0\nib_core 2 0\n"}, {7, "6.1.0-37-amd64\n"}});
  add("routes", {{5,
                  "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
                  "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n"
                  "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"},
                 {6,
                  "00000000000000000000000000000000 00 00000000000000000000000000000000 00 "
                  "fe800000000000000000000000000001 00000400 1 0 00000003 eth0\n"}});
  add("adapter", {{10, "0x020000\n"}, {11, "0x15b3\n"}, {12, "0x1019\n"}});
  add("efa", {{10, "0x020000\n"}, {11, "0x1d0f\n"}, {12, "0xefa2\n"}});
  add("interface", {{13, "1500\n"}, {14, "0x1003\n"}, {15, "up\n"}, {16, "1\n"}});
  add("device", {{18, "mlx5_0\n"}, {9, "systemd-nspawn\n"}});
}

const fuzz::target host_files("host_files", run_host_files, host_file_seeds);

}  // namespace
}  // namespace verbena::diagnose
