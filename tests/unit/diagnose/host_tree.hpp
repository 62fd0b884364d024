// SPDX-License-Identifier: MIT
// A small tree of files that stands for a host.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "verbena/diagnose/host_facts.hpp"

namespace verbena::testing_support {

/// A folder under the temporary one, removed at the end.
class host_tree {
 public:
  host_tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "verbena-host-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    root_ = pattern;
  }
  host_tree(const host_tree&) = delete;
  host_tree& operator=(const host_tree&) = delete;
  ~host_tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }

  host_tree& file(std::string_view path, std::string_view text) {
    const auto target = root_ / path;
    std::filesystem::create_directories(target.parent_path());
    std::ofstream(target) << text;
    return *this;
  }
  host_tree& folder(std::string_view path) {
    std::filesystem::create_directories(root_ / path);
    return *this;
  }
  /// A network interface with these files of sysfs.
  host_tree& interface(const std::string& name, std::string_view mtu, std::string_view flags) {
    const std::string at = "sys/class/net/" + name;
    return file(at + "/mtu", std::string(mtu) + "\n")
        .file(at + "/flags", std::string(flags) + "\n")
        .file(at + "/type", name == "lo" ? "772\n" : "1\n")
        .file(at + "/operstate", "up\n");
  }
  /// An RDMA device of the kernel's with its file, and the one in /dev if `with_node`.
  host_tree& device(const std::string& name, const std::string& verbs, bool with_node) {
    folder("sys/class/infiniband/" + name);
    file("sys/class/infiniband_verbs/" + verbs + "/ibdev", name + "\n");
    return with_node ? file("dev/infiniband/" + verbs, "") : *this;
  }

  [[nodiscard]] diagnose::host_facts facts() const {
    return diagnose::gather_host_facts(
        {.root = root_, .environment = [](const char*) -> const char* { return nullptr; }});
  }

 private:
  std::filesystem::path root_;
};

}  // namespace verbena::testing_support
