// The papers' figures as descriptions: what each shows, and which launches show it here. Data alone; `zerohop bench
// papers` (papers.cpp) runs them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace zh::tools {

/// Ranks of a job: so many nodes of so many.
struct FigureLayout {
  int nodes = 1;
  int ranks_per_node = 1;
};

/// How ranks are placed, for the host and for zerohop alike.
struct FigureWay {
  std::string_view name;       ///< of its series, behind the library's; "": the only way
  bool in_turn = false;        ///< dealt out to the nodes one by one, not in blocks
  std::string_view placement;  ///< --placement of the program; "": free
};

/// How zerohop carries the collective out.
struct FigureAlgorithm {
  std::string_view name;   ///< of ZEROHOP_ALGORITHM; "": what zerohop does by itself
  std::string_view chunk;  ///< the setting chunk; "": its default
};

/// What is told of a figure.
enum class FigureTelling : uint8_t {
  kSeries,  ///< times by size, a column for each way
  kMatmul,  ///< a matrix multiplication, judged as the other benchmarks are
  kShapes,  ///< strided broadcasts made of messages: rows that `zerohop model report` reads
};

struct Figure {
  std::string_view id;          ///< "cc-5a"
  std::string_view source;      ///< paper and figure
  std::string_view shows;       ///< in the paper, and what is measured here
  std::string_view collective;  ///< what the program measures
  std::string_view sizes;       ///< comma list of bytes of a block
  std::span<const FigureLayout> layouts;
  std::span<const FigureWay> ways;
  std::span<const FigureAlgorithm> algorithms;
  bool any_root = false;  ///< the root moves on with every call
  FigureTelling telling = FigureTelling::kSeries;
};
std::span<const Figure> figures();
/// Null if there is none of this name.
const Figure* figure_named(std::string_view id);

}  // namespace zh::tools
