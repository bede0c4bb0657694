package troupe

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

func TestServerOfASlurmStep(t *testing.T) {
	address := spectest.Address(t)
	_, digits, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(digits)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0",
		"SLURMD_NODENAME": "127.0.0.1", "SLURM_LOCALID": "0"} {
		t.Setenv(name, value)
	}
	def, err := SlurmCluster{Jobs: map[string]int{"ps": SlurmRest}, Port: port}.ServerDef()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(t.Context(), def, silent)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context())
	if s.Task() != "/job:ps/replica:0/task:0" || s.Target() != "grpc://"+address {
		t.Errorf("%s at %s", s.Task(), s.Target())
	}
	t.Setenv("SLURM_PROCID", "1")
	if _, err := (SlurmCluster{}).ServerDef(); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), `SLURM_PROCID is 1`) {
		t.Errorf("a rank that is not there: %v", err)
	}
}
