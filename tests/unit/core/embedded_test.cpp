#include "core/embedded.hpp"

#include <filesystem>

#include "core/file.hpp"
#include "tests/catch.hpp"

using namespace core;

std::span<const EmbeddedFile> unit_core_data();

TEST_CASE("an embedded file equals its source byte for byte") {
  // Embedded in pieces of 7 bytes (CMakeLists.txt), so that characters and marks are cut apart.
  for (const EmbeddedFile& file : unit_core_data()) {
    CAPTURE(file.name);
    const std::string path = std::string(UNIT_CORE_FOLDER "/") + std::string(file.name);
    const auto source = read_file(path, 10'000);
    REQUIRE(source.ok());
    CHECK(file.text == *source);
  }
  CHECK(unit_core_data().size() == 2);
}

TEST_CASE("a file in the override folder replaces the embedded one of its name") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "planner-embedded-test").string();
  std::filesystem::create_directories(folder + "/data");
  REQUIRE(write_atomically(folder + "/data/plain.txt", "other\n").ok());
  CHECK(embedded_or_override(unit_core_data(), "data/plain.txt", folder).value() == "other\n");
  CHECK(embedded_or_override(unit_core_data(), "data/plain.txt", "").value() == "plain\n");
  CHECK(embedded_or_override(unit_core_data(), "data/awkward.txt", folder).ok());
  std::filesystem::remove_all(folder);
}

TEST_CASE("an embedded file that is not there is answered with the nearest name") {
  CHECK(to_text(embedded_or_override(unit_core_data(), "data/plian.txt").problems()[0]) ==
        "data/plian.txt: expected the name of a data file, found no such file; "
        "did you mean data/plain.txt?");
}
