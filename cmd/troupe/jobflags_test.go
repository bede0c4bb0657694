package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestFormsOfFlags(t *testing.T) {
	for line, want := range map[string]string{
		"serve --cluster ps=h:1 --job ps --task 0":        "serve --cluster=ps=h:1 --job=ps --task=0",
		"serve -cluster=ps=h:1 -job=ps -task=0":           "serve --cluster=ps=h:1 --job=ps --task=0",
		"serve --job_name=worker --task_index=1":          "serve --job_name=worker --task_index=1",
		"serve -job_name worker -task_index 1":            "serve --job_name=worker --task_index=1",
		"serve --ps=h:1,h:2 --worker=h:3":                 "serve --declared-job=ps=h:1,h:2 --declared-job=worker=h:3",
		"serve -ps h:1 --worker h:3,h:4":                  "serve --declared-job=ps=h:1 --declared-job=worker=h:3,h:4",
		"serve --ps_hosts=h:1 --worker_hosts=h:3":         "serve --declared-job=ps=h:1 --declared-job=worker=h:3",
		"serve --my_chief=h:1":                            "serve --declared-job=my_chief=h:1",
		"serve --local=localhost:0":                       "serve --declared-job=local=localhost:0",
		"serve --w=localhost:0,localhost:0":               "serve --declared-job=w=localhost:0,localhost:0",
		"serve --w=3@h:1,7@h:2":                           "serve --declared-job=w=3@h:1,7@h:2",
		"serve --x=[::1]:80":                              "serve --declared-job=x=[::1]:80",
		"serve --server_def=f":                            "serve --server_def=f",
		"serve --server-def f --config g":                 "serve --server-def=f --config=g",
		"serve --task -1":                                 "serve --task=-1",
		"serve --task":                                    "serve --task",
		"serve -h":                                        "serve --help",
		"serve -help":                                     "serve --help",
		"serve --lease 5s --drain=1s --memory_limit 1GiB": "serve --lease=5s --drain=1s --memory_limit=1GiB",
		"serve stray --job x":                             "serve stray --job=x",
		"serve --job x -- --ps=h:1":                       "serve --job=x -- --ps=h:1",
		"up -tasks=ps=1":                                  "up -tasks=ps=1",
		"":                                                "",
	} {
		got, err := joinJobFlags(newRoot(os.Stdin), strings.Fields(line))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", line, strings.Join(got, " "), err)
		}
	}
}

func TestArgumentsAreNotWrittenTo(t *testing.T) {
	args := []string{"serve", "-ps", "h:1", "-task", "0"}
	before := slices.Clone(args)
	if _, err := joinJobFlags(newRoot(os.Stdin), args); err != nil || !slices.Equal(args, before) {
		t.Errorf("%v, %v", args, err)
	}
}

func TestFlagsThatAreNoJobs(t *testing.T) {
	for line, want := range map[string]string{
		"serve --tasc=1":     `unknown flag: --tasc (and it does not declare a job: Could not interpret "1" as a host-port pair: it has no port.`,
		"serve --tasc":       "unknown flag: --tasc (a job is declared by --tasc=host:port,host:port)",
		"serve --ps=h":       `unknown flag: --ps (and it does not declare a job: Could not interpret "h"`,
		"serve --ps=":        "unknown flag: --ps (a job is declared by --ps=host:port,host:port)",
		"serve --1ps=h:1":    `"1ps" is not a job name`,
		"serve --my-job=h:1": `"my-job" is not a job name`,
		"serve -w h:99999":   "port 99999 is not in [0, 65535]",
	} {
		_, err := joinJobFlags(newRoot(os.Stdin), strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage {
			t.Errorf("%s: %v", line, err)
		}
	}
}
