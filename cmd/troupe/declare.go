package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/remote/spec"
)

// tfConfig is the environment variable in which TensorFlow's launchers declare the cluster.
const tfConfig = "TF_CONFIG"

// slurmCluster is the value of --cluster for the cluster that is a step of Slurm.
const slurmCluster = "slurm"

// declaration is a cluster and a task in it in the forms that serve takes.
type declaration struct {
	cluster   string   // --cluster
	slurmJobs string   // --slurm-jobs
	slurmPort int      // --slurm-port
	jobs      []string // --ps=…, --worker=…
	serverDef string   // --server-def
	join      []string // --join
	job       string
	task      int
	hasTask   bool
	protocol  string
	config    string      // --config
	compress  compression // --rpc-compression
}

// check refuses a command line that declares no cluster or several ones.
func (d *declaration) check() error {
	var given []string
	for _, form := range []struct {
		name string
		set  bool
	}{{"--cluster", d.cluster != ""}, {"a flag for each job", len(d.jobs) > 0}, {"--server-def", d.serverDef != ""},
		{"--join", len(d.join) > 0}} {
		if form.set {
			given = append(given, form.name)
		}
	}
	if len(given) > 1 {
		return usage(fmt.Errorf("the cluster is declared more than once, by %s", strings.Join(given, " and ")))
	}
	if len(given) == 0 && os.Getenv(tfConfig) == "" {
		return usage(fmt.Errorf("no cluster is declared: give --cluster, a flag for each job such as --worker=host:port, --server-def, %s in the environment, or --join to learn it from a running one", tfConfig))
	}
	if d.cluster != slurmCluster && (d.slurmJobs != "" || d.slurmPort != spec.SlurmPort) {
		return usage(fmt.Errorf("--slurm-jobs and --slurm-port are for --cluster %s", slurmCluster))
	}
	if _, err := parseSlurmJobs(d.slurmJobs); err != nil {
		return usage(fmt.Errorf("--slurm-jobs: %w", err))
	}
	return nil
}

// options are what the flags say of the server, beside the cluster. What they say comes last.
func (d *declaration) options(opts []troupe.Option) ([]troupe.Option, error) {
	config := &corepb.ConfigProto{}
	if d.config != "" {
		if err := readProto(d.config, config); err != nil {
			return nil, err
		}
	}
	if d.compress.algorithm != "" {
		d.compress.into(config)
	}
	opts = append(opts, troupe.WithConfig(config))
	if d.job != "" {
		opts = append(opts, troupe.WithJob(d.job))
	}
	if d.hasTask {
		opts = append(opts, troupe.WithTask(d.task))
	}
	if d.protocol != "" {
		opts = append(opts, troupe.WithProtocol(d.protocol))
	}
	return opts, nil
}

// def is the declared cluster, and the task in it that the declaration itself names, if it does.
func (d *declaration) def(log *slog.Logger) (*corepb.ServerDef, error) {
	var cluster *spec.Spec
	var self spec.Task
	var err error
	switch {
	case d.serverDef != "":
		def := &corepb.ServerDef{}
		return def, readProto(d.serverDef, def)
	case d.cluster == slurmCluster:
		cluster, self, err = d.slurm()
	case d.cluster != "":
		cluster, err = spec.Parse(d.cluster)
	case len(d.jobs) > 0:
		cluster, err = spec.Parse(strings.Join(d.jobs, ";"))
	default:
		cluster, self, err = spec.FromTFConfig([]byte(os.Getenv(tfConfig)))
	}
	if err != nil {
		return nil, err
	}
	if os.Getenv(tfConfig) != "" && (d.cluster != "" || len(d.jobs) > 0) {
		log.Debug("TF_CONFIG is ignored: the command line declares the cluster")
	}
	return &corepb.ServerDef{Cluster: cluster.Proto(), JobName: self.Job, TaskIndex: int32(self.Index)}, nil
}

// server makes the declared server, started. ctx bounds how long a cluster to join is looked for.
func (d *declaration) server(ctx context.Context, log *slog.Logger, opts ...troupe.Option) (*troupe.Server, error) {
	opts, err := d.options(opts)
	if err != nil {
		return nil, err
	}
	if len(d.join) > 0 {
		return troupe.JoinCluster(ctx, d.join, opts...)
	}
	def, err := d.def(log)
	if err != nil {
		return nil, err
	}
	return troupe.NewServer(ctx, def, opts...)
}

// resolve tells which task the declared server would be, for --check. A cluster to join is not asked.
func (d *declaration) resolve(log *slog.Logger, opts ...troupe.Option) (string, error) {
	opts, err := d.options(opts)
	if err != nil {
		return "", err
	}
	if len(d.join) > 0 {
		return "a task of the cluster at " + strings.Join(d.join, ","), nil
	}
	def, err := d.def(log)
	if err != nil {
		return "", err
	}
	if def, err = troupe.Resolve(def, opts...); err != nil {
		return "", err
	}
	cluster, err := spec.FromProto(def.GetCluster())
	if err != nil {
		return "", err
	}
	self, err := cluster.Task(def.GetJobName(), int(def.GetTaskIndex()))
	return fmt.Sprintf("%v of %v", self, cluster), err
}

// slurm is the cluster that is the process's step of Slurm, and which of its tasks the process is.
func (d *declaration) slurm() (*spec.Spec, spec.Task, error) {
	jobs, err := parseSlurmJobs(d.slurmJobs)
	if err != nil {
		return nil, spec.Task{}, err
	}
	return spec.FromSlurm(os.LookupEnv, jobs, d.slurmPort)
}

// parseSlurmJobs reads ps=1,worker=*, where the asterisk stands for the rest of the tasks.
func parseSlurmJobs(text string) (map[string]int, error) {
	if text == "" {
		return nil, nil
	}
	jobs := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		job, ok := strings.CutSuffix(strings.TrimSpace(part), "=*")
		counted := map[string]int{job: spec.SlurmRest}
		if !ok {
			var err error
			if counted, err = parseTasks(part); err != nil {
				return nil, err
			}
		}
		for job, tasks := range counted {
			if _, twice := jobs[job]; twice {
				return nil, fmt.Errorf("the job %s is given twice", job)
			}
			jobs[job] = tasks
		}
	}
	return jobs, nil
}
