package access

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

const (
	scheme = "troupe"
	// anyTask is the index of a name that stands for all tasks of its job.
	anyTask = -1
	// maxClientName bounds a client's name: every line of the audit log contains it.
	maxClientName = 128
)

// Name is the holder of a certificate: a task, any task of a job, or a client. Its text is the URI that the certificate carries. The zero
// Name is nobody. Names can be compared with ==.
type Name struct {
	job    string
	index  int
	client string
}

// TaskName returns the name of one task of a job: troupe://task/worker/1.
func TaskName(job string, index int) Name { return Name{job: job, index: index} }

// JobName returns the name that stands for every task of a job: troupe://task/worker.
func JobName(job string) Name { return Name{job: job, index: anyTask} }

// ClientName returns the name of a client: troupe://client/alice.
func ClientName(client string) Name { return Name{client: client} }

// IsTask reports whether the name is a task's own or that of its job.
func (n Name) IsTask(job string, index int) bool {
	return n.job != "" && n.job == job && (n.index == anyTask || n.index == index)
}

// Client returns the client's name; empty for a task.
func (n Name) Client() string { return n.client }

// Job returns the job of the task or tasks; empty for a client.
func (n Name) Job() string { return n.job }

// String returns the name as a certificate carries it.
func (n Name) String() string {
	switch {
	case n.client != "":
		return scheme + "://client/" + n.client
	case n.job == "":
		return "nobody"
	case n.index == anyTask:
		return scheme + "://task/" + n.job
	}
	return scheme + "://task/" + n.job + "/" + strconv.Itoa(n.index)
}

// ParseName parses a name as a certificate carries it.
func ParseName(text string) (Name, error) {
	bad := func() (Name, error) {
		return Name{}, status.InvalidArgumentf("%.200q is not a name: troupe://task/JOB/INDEX, troupe://task/JOB or troupe://client/NAME is one", text)
	}
	path, ok := strings.CutPrefix(text, scheme+"://")
	if !ok {
		return bad()
	}
	kind, path, _ := strings.Cut(path, "/")
	switch kind {
	case "client":
		if !validClient(path) {
			return bad()
		}
		return ClientName(path), nil
	case "task":
		job, digits, one := strings.Cut(path, "/")
		if !one {
			digits = "0"
		}
		// Use spec's parser for tasks, so that the two cannot drift apart.
		name, index, err := spec.ParseTaskName("/job:" + job + "/task:" + digits)
		if err != nil || name != job {
			return bad()
		}
		if !one {
			return JobName(job), nil
		}
		if strconv.Itoa(index) != digits { // 01 would be a second name for 1
			return bad()
		}
		return TaskName(job, index), nil
	}
	return bad()
}

// validClient reports whether name is a valid client name. Characters with a meaning in a URI or in the globs of a policy are not allowed,
// so a name is the same text everywhere.
func validClient(name string) bool {
	if name == "" || len(name) > maxClientName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._-@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// NameOf returns the single name among a certificate's URIs. Its common name and its hosts do not count: an authority that issues
// certificates for machines has not said what they may claim to be.
func NameOf(cert *x509.Certificate) (Name, error) {
	var found *url.URL
	for _, u := range cert.URIs {
		if u.Scheme != scheme {
			continue
		}
		if found != nil {
			return Name{}, status.Errorf(status.Unauthenticated, "%s carries two names, %.200q and %.200q: it must carry one", describe(cert), found, u)
		}
		found = u
	}
	if found == nil {
		return Name{}, status.Errorf(status.Unauthenticated,
			"%s does not say whom it was issued to: it must carry a URI such as troupe://task/worker/1 or troupe://client/alice as subject alternative name", describe(cert))
	}
	name, err := ParseName(found.String())
	if err != nil {
		return Name{}, status.Errorf(status.Unauthenticated, "%s: %v", describe(cert), err)
	}
	return name, nil
}

// describe identifies a certificate in messages to people.
func describe(cert *x509.Certificate) string {
	return fmt.Sprintf("the certificate %.100q (serial %x)", cert.Subject.CommonName, cert.SerialNumber)
}
