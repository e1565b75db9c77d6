// A file of its own: the engine's tests have everything but this.
namespace volley {
enum class Exit : int;
Exit run_program(int argc, char** argv);
}  // namespace volley

int main(int argc, char** argv) { return static_cast<int>(volley::run_program(argc, argv)); }
