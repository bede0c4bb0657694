package serve

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/remote/spec"
)

// TestDeclarations checks which command lines declare a cluster, and how the others are refused.
func TestDeclarations(t *testing.T) {
	for name, c := range map[string]struct {
		declares  declaration
		inherited string // TF_CONFIG
		want      string // in the error; empty if there is none
	}{
		"a cluster":             {declaration{cluster: "w=h:1"}, "", ""},
		"jobs":                  {declaration{jobs: []string{"w=h:1"}}, "", ""},
		"a file":                {declaration{serverDef: "f"}, "", ""},
		"one to join":           {declaration{join: []string{"h:1"}}, "", ""},
		"the environment":       {declaration{}, "{}", ""},
		"and the environment":   {declaration{cluster: "w=h:1"}, "{}", ""},
		"none":                  {declaration{}, "", "no cluster is declared"},
		"two":                   {declaration{cluster: "w=h:1", join: []string{"h:1"}}, "", "declared more than once, by --cluster and --join"},
		"two others":            {declaration{jobs: []string{"w=h:1"}, serverDef: "f"}, "", "by a flag for each job and --server-def"},
		"Slurm's":               {declaration{cluster: slurmCluster, slurmJobs: "ps=1, worker=*", slurmPort: 1}, "", ""},
		"Slurm's jobs, alone":   {declaration{cluster: "w=h:1", slurmJobs: "ps=1"}, "", "are for --cluster slurm"},
		"Slurm's port, alone":   {declaration{cluster: "w=h:1", slurmPort: 1}, "", "are for --cluster slurm"},
		"a job of Slurm, twice": {declaration{cluster: slurmCluster, slurmJobs: "ps=1,ps=*"}, "", "--slurm-jobs: the job ps is given twice"},
		"no number of tasks":    {declaration{cluster: slurmCluster, slurmJobs: "ps"}, "", "--slurm-jobs: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(tfConfig, c.inherited)
			if c.declares.slurmPort == 0 {
				c.declares.slurmPort = spec.SlurmPort
			}
			err := c.declares.check()
			switch {
			case err == nil:
				if c.want != "" {
					t.Errorf("no error, want %q", c.want)
				}
			case c.want == "" || !strings.Contains(err.Error(), c.want) || exit.CodeOf(err, exit.CodeOK) != exit.CodeUsage:
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
