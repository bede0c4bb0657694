package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/remote/spec"
)

// tfConfig is the environment variable in which TensorFlow's launchers declare the cluster.
const tfConfig = "TF_CONFIG"

// slurmCluster is the value of --cluster for the cluster that is a step of Slurm.
const slurmCluster = "slurm"

// declaration is a cluster, and a task in it, in one of the forms that servers accept.
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

// check rejects a command line that declares no cluster, or more than one.
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
		return exit.Usage(fmt.Errorf("the cluster is declared more than once, by %s", strings.Join(given, " and ")))
	}
	if len(given) == 0 && os.Getenv(tfConfig) == "" {
		return exit.Usage(fmt.Errorf("no cluster is declared: give --cluster, a flag for each job such as --worker=host:port, --server-def, %s in the environment, or --join to learn it from a running one", tfConfig))
	}
	if d.cluster != slurmCluster && (d.slurmJobs != "" || d.slurmPort != spec.SlurmPort) {
		return exit.Usage(fmt.Errorf("--slurm-jobs and --slurm-port are for --cluster %s", slurmCluster))
	}
	if _, err := parseSlurmJobs(d.slurmJobs); err != nil {
		return exit.Usage(fmt.Errorf("--slurm-jobs: %w", err))
	}
	return nil
}

// options returns the server's options from the flags, apart from the cluster. They are applied last.
func (d *declaration) options(opts []troupe.Option) ([]troupe.Option, error) {
	if d.config != "" || d.compress.algorithm != "" {
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
	}
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

// def returns the declared cluster, and the task in it if the declaration itself names one.
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

// server creates and starts the declared server. ctx bounds the search for a cluster to join.
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

// resolve returns which task of which cluster the declared server would be, for --check. For a cluster to join, which it does not contact, it returns
// no cluster.
func (d *declaration) resolve(log *slog.Logger, opts ...troupe.Option) (cluster *spec.Spec, self spec.Task, err error) {
	opts, err = d.options(opts)
	if err != nil || len(d.join) > 0 {
		return nil, self, err
	}
	def, err := d.def(log)
	if err != nil {
		return nil, self, err
	}
	if def, err = troupe.Resolve(def, opts...); err != nil {
		return nil, self, err
	}
	if cluster, err = spec.FromProto(def.GetCluster()); err != nil {
		return nil, self, err
	}
	self, err = cluster.Task(def.GetJobName(), int(def.GetTaskIndex()))
	return cluster, self, err
}

// slurm returns the cluster of the process's Slurm step, and the process's task in it.
func (d *declaration) slurm() (*spec.Spec, spec.Task, error) {
	jobs, err := parseSlurmJobs(d.slurmJobs)
	if err != nil {
		return nil, spec.Task{}, err
	}
	return spec.FromSlurm(os.LookupEnv, jobs, d.slurmPort)
}

// parseSlurmJobs parses ps=1,worker=*, where the asterisk stands for the remaining tasks.
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
			if counted, err = flagset.ParseTasks(part); err != nil {
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
