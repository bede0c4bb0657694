package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/command/exit"
)

func TestFormsOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--cluster ps=h:1 --job ps --task 0":        "--cluster=ps=h:1 --job=ps --task=0",
		"-cluster=ps=h:1 -job=ps -task=0":           "--cluster=ps=h:1 --job=ps --task=0",
		"--job_name=worker --task_index=1":          "--job_name=worker --task_index=1",
		"-job_name worker -task_index 1":            "--job_name=worker --task_index=1",
		"--ps=h:1,h:2 --worker=h:3":                 "--declared-job=ps=h:1,h:2 --declared-job=worker=h:3",
		"-ps h:1 --worker h:3,h:4":                  "--declared-job=ps=h:1 --declared-job=worker=h:3,h:4",
		"--ps_hosts=h:1 --worker_hosts=h:3":         "--declared-job=ps=h:1 --declared-job=worker=h:3",
		"--my_chief=h:1":                            "--declared-job=my_chief=h:1",
		"--local=localhost:0":                       "--declared-job=local=localhost:0",
		"--w=localhost:0,localhost:0":               "--declared-job=w=localhost:0,localhost:0",
		"--w=3@h:1,7@h:2":                           "--declared-job=w=3@h:1,7@h:2",
		"--x=[::1]:80":                              "--declared-job=x=[::1]:80",
		"--server_def=f":                            "--server_def=f",
		"--server-def f --config g":                 "--server-def=f --config=g",
		"--task -1":                                 "--task=-1",
		"--task":                                    "--task",
		"-h":                                        "--help",
		"-help":                                     "--help",
		"--lease 5s --drain=1s --memory_limit 1GiB": "--lease=5s --drain=1s --memory_limit=1GiB",
		"stray --job x":                             "stray --job=x",
		"--job x -- --ps=h:1":                       "--job=x -- --ps=h:1",
		"":                                          "",
	} {
		got, err := joinJobFlags(Program{}.Command(), strings.Fields(line))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", line, strings.Join(got, " "), err)
		}
	}
}

func TestArgumentsAreNotWrittenTo(t *testing.T) {
	args := []string{"-ps", "h:1", "-task", "0"}
	before := slices.Clone(args)
	if _, err := joinJobFlags(Program{}.Command(), args); err != nil || !slices.Equal(args, before) {
		t.Errorf("%v, %v", args, err)
	}
}

func TestFlagsThatAreNoJobs(t *testing.T) {
	for line, want := range map[string]string{
		"--tasc=1":     `unknown flag: --tasc (and it does not declare a job: Could not interpret "1" as a host-port pair: it has no port.`,
		"--tasc":       "unknown flag: --tasc (a job is declared by --tasc=host:port,host:port)",
		"--ps=h":       `unknown flag: --ps (and it does not declare a job: Could not interpret "h"`,
		"--ps=":        "unknown flag: --ps (a job is declared by --ps=host:port,host:port)",
		"--1ps=h:1":    `"1ps" is not a job name`,
		"--my-job=h:1": `"my-job" is not a job name`,
		"--_hosts=h:1": `unknown flag: --_hosts (and it does not declare a job: "_hosts" is not a job name`,
		"-w h:99999":   "port 99999 is not in [0, 65535]",
	} {
		_, err := joinJobFlags(Program{}.Command(), strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) || exit.CodeOf(err, exit.CodeOK) != exit.CodeUsage {
			t.Errorf("%s: %v", line, err)
		}
	}
}
