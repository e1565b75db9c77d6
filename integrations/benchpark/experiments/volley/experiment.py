from benchpark.directives import variant
from benchpark.experiment import Experiment
from benchpark.programming_model import ProgrammingModel, ProgrammingModelType


class Volley(Experiment, ProgrammingModel(ProgrammingModelType.Mpionly)):
    """Runs the workloads of the Ramble application with the same name, on whole nodes."""

    variant("workload", default="check", values=("check", "pingpong"), multi=True, description="Workloads")
    variant("version", default="latest", values=("latest",), description="The volley on PATH")
    variant("nodes", default="1", values=int, description="Nodes of the job")
    variant("options", default=" ", description="Options of volley")

    def compute_applications_section(self):
        # volley starts its ranks itself
        self.add_experiment_variable("n_nodes", self.spec.variants["nodes"][0], named=True)
        self.add_experiment_variable("n_ranks", "{n_nodes}*{sys_cores_per_node}")
        self.add_experiment_variable("options", self.spec.variants["options"][0].strip())
        self.set_required_variables(n_resources="{n_ranks}", process_problem_size="", total_problem_size="")

    def compute_package_section(self):
        self.add_package_spec(self.name, [self.name])
