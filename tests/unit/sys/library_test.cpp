// SPDX-License-Identifier: MIT
#include "verbena/sys/library.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/sys/fresh_process.hpp"

namespace verbena::sys {
namespace {

using testing_support::environment;

// A directory in which libraries of rdma-core are there but cannot be loaded: put in front of the
// loader's path it hides the real ones. A fresh process finds the one of its parent.
class hiding_directory {
 public:
  hiding_directory() {
    if (const char* made_by_parent = ::getenv(variable)) {
      path_ = made_by_parent;
      return;
    }
    owner_ = true;
    path_ =
        std::filesystem::temp_directory_path() / ("verbena_hidden_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
    for (const char* name : {"libibverbs.so.1", "librdmacm.so.1", "libefa.so.1"})
      std::ofstream(path_ / name) << "not a library";
    ::setenv(variable, path_.c_str(), 1);
  }
  hiding_directory(const hiding_directory&) = delete;
  hiding_directory& operator=(const hiding_directory&) = delete;
  ~hiding_directory() {
    if (!owner_) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    ::unsetenv(variable);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static constexpr const char* variable = "VERBENA_TEST_HIDING_DIRECTORY";
  std::filesystem::path path_;
  bool owner_ = false;
};

void expect_refused(rdma_library which, const std::string& words) {
  const auto loaded = load_system_library(which);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind(), error_kind::unavailable);
  EXPECT_EQ(loaded.error().code(), ENOENT);
  EXPECT_NE(loaded.error().message().find(words), std::string::npos) << loaded.error().message();
}

TEST(system_library, libibverbs_is_loaded_once) {
  const auto first = load_system_library(rdma_library::ibverbs);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_EQ(load_system_library(rdma_library::ibverbs).value(), *first);
}

// parity: rrddmma-4
TEST(system_library, environment_variable_overrides_each_file) {
  const environment ibverbs("VERBENA_LIBIBVERBS", "/nowhere/libibverbs.so");
  const environment rdmacm("VERBENA_LIBRDMACM", "/nowhere/librdmacm.so");
  const environment efa("VERBENA_LIBEFA", "/nowhere/libefa.so");
  expect_refused(rdma_library::ibverbs, "VERBENA_LIBIBVERBS is set to this path");
  expect_refused(rdma_library::rdmacm, "VERBENA_LIBRDMACM is set to this path");
  expect_refused(rdma_library::efa, "VERBENA_LIBEFA is set to this path");
  expect_refused(rdma_library::efa, "/nowhere/libefa.so");
}

TEST(system_library, empty_environment_variable_selects_default) {
  const environment ibverbs("VERBENA_LIBIBVERBS", "");
  EXPECT_TRUE(load_system_library(rdma_library::ibverbs).has_value());
}

// parity: rrddmma-3
TEST(system_library_death, missing_library_error_names_the_package) {
  const hiding_directory hidden;
  const environment path("LD_LIBRARY_PATH", hidden.path().c_str());
  VERBENA_IN_FRESH_PROCESS({
    expect_refused(rdma_library::ibverbs, "apt install libibverbs1 ibverbs-providers");
    expect_refused(rdma_library::ibverbs, "RDMA adapters need it");
    expect_refused(rdma_library::rdmacm, "apt install librdmacm1");
    expect_refused(rdma_library::rdmacm, "the connection manager needs it: install it with");
    expect_refused(rdma_library::efa, "EFA queue pairs need it");
    expect_refused(rdma_library::efa, "pacman -S rdma-core");
  });
}

TEST(soft_device_library, is_loaded_once) {
  const auto first = load_soft_device_library();
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_EQ(load_soft_device_library().value(), *first);
}

TEST(soft_device_library, wrong_file_error_names_the_variable) {
  const environment library("VERBENA_SOFTDEV_LIBRARY", "/nowhere/libverbena-soft.so.0");
  const auto loaded = load_soft_device_library();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind(), error_kind::unavailable);
  EXPECT_NE(loaded.error().message().find("VERBENA_SOFTDEV_LIBRARY is set to this path"),
            std::string::npos)
      << loaded.error().message();
}

}  // namespace
}  // namespace verbena::sys
