package actors

import (
	"fmt"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
)

// Rights are what the client of a session may do. The master decides them when it creates the session, and they go with
// the session's plans to the workers. The zero Rights are none.
type Rights struct {
	// Who is the client, for messages: "the client at 10.0.0.7:51234".
	Who string
	// Owner is who opened the session, in the words of an access policy; empty where nothing tells callers apart. It stays with the
	// master.
	Owner string
	// Client is whose memory counts together with that of the client's other sessions; empty for a client that is not told
	// apart from others, as those on the loopback interface are.
	Client string
	// StepBytes and SessionBytes bound the host memory of a step and of a session on each task, ClientBytes that of all
	// the client's sessions there; 0 is no bound but the task's own.
	StepBytes, SessionBytes, ClientBytes int64
	// Files tells which files the session's ops may use.
	Files FileRights
	// Policy bounds what the master lets the session do; nil for no bounds.
	Policy Policy
}

// FileRights are a session's rights to the files of all tasks.
type FileRights uint8

const (
	// NoFiles is no right to files, whatever the servers give to others.
	NoFiles FileRights = iota
	// SharedFiles are those that each server gives to everybody: what is below its folders, or all if it is insecure.
	SharedFiles
	// AllFiles are those that the server's process may use, unless the server has folders that everybody is confined to.
	AllFiles
)

// FileAccess is which files a server gives to the ops of its clients' sessions.
type FileAccess struct {
	// Folders confine the ops of all sessions to what lies below them.
	Folders []string
	// Insecure gives all that the process may use to everybody, unless there are folders.
	Insecure bool
}

// fileServer gives sessions the files that they have rights to on this task.
type fileServer struct {
	task     string
	insecure bool
	folders  *files.Folders // nil where there are none
}

func (a FileAccess) open(task string) (*fileServer, error) {
	f := &fileServer{task: task, insecure: a.Insecure}
	if len(a.Folders) == 0 {
		return f, nil
	}
	var err error
	f.folders, err = files.OpenFolders(a.Folders)
	return f, err
}

func (f *fileServer) close() {
	if f.folders != nil {
		f.folders.Close()
	}
}

// of gives the files that a session may use.
func (f *fileServer) of(r Rights) files.FS {
	switch {
	case r.Files == NoFiles:
		return files.None(fmt.Sprintf("%s has no right to files", r.Who))
	case f.folders != nil:
		return f.folders.Confine(fmt.Sprintf("%s gives its clients only what is below %v (--files)", f.task, f.folders))
	case f.insecure || r.Files == AllFiles:
		return files.All
	}
	return files.None(fmt.Sprintf("%s is not on the loopback interface of its server, and %s gives such clients no files; "+
		"start it with --files DIR to give its clients what is below a folder, or with --insecure to give everybody all files", r.Who, f.task))
}

// proto are the rights as a plan carries them.
func (r Rights) proto() *wire.Rights {
	return &wire.Rights{Who: r.Who, Files: uint32(r.Files), Client: r.Client, StepBytes: r.StepBytes, SessionBytes: r.SessionBytes, ClientBytes: r.ClientBytes}
}

// rightsFrom reads the rights of a plan. Those that this version does not know are an error.
func rightsFrom(m *wire.Rights) (Rights, error) {
	r := Rights{Who: m.GetWho(), Files: FileRights(min(m.GetFiles(), 255)), Client: m.GetClient(),
		StepBytes: m.GetStepBytes(), SessionBytes: m.GetSessionBytes(), ClientBytes: m.GetClientBytes()}
	if r.Files > AllFiles {
		return Rights{}, status.InvalidArgumentf("A plan has rights to files that are not known: %d", m.GetFiles())
	}
	if r.StepBytes < 0 || r.SessionBytes < 0 || r.ClientBytes < 0 {
		return Rights{}, status.InvalidArgumentf("A plan has rights to a negative number of bytes: %d, %d and %d", r.StepBytes, r.SessionBytes, r.ClientBytes)
	}
	return r, nil
}
