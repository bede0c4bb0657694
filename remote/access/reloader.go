package access

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// reloader reloads files when they have changed. It polls them: remote file systems, and volumes that are swapped as a whole, report no
// changes.
type reloader struct {
	what  string
	paths []string
	load  func() error // applies what the files say; after an error the previous state stays in use
	log   *slog.Logger
	told  func(what string, err error) // may be nil
	// looked, if set, is called when the files are loaded and then after each check of the files, by one goroutine at a time.
	looked func()

	mu   sync.Mutex    // held while files are read
	seen []fingerprint // of the last attempt

	quit chan struct{}
	stop sync.Once
	done sync.WaitGroup
}

// start loads the files for the first time, and watches them if that succeeds.
func (r *reloader) start() error {
	r.seen = fingerprints(r.paths)
	if err := r.load(); err != nil {
		return err
	}
	if r.looked != nil {
		r.looked()
	}
	r.quit = make(chan struct{})
	r.done.Go(r.poll)
	return nil
}

func (r *reloader) poll() {
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			r.mu.Lock()
			if now := fingerprints(r.paths); !slices.EqualFunc(now, r.seen, fingerprint.same) {
				// The error is in the log: whoever wrote the file is not here to receive it.
				_ = r.reloadLocked(now)
			}
			r.mu.Unlock()
			if r.looked != nil {
				r.looked()
			}
		case <-r.quit:
			return
		}
	}
}

// reload reads the files now, changed or not.
func (r *reloader) reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reloadLocked(fingerprints(r.paths))
}

// reloadLocked tries once for each state of the files, so that a broken one is reported once. now is taken before the files are read: a
// file that changes meanwhile is read again.
func (r *reloader) reloadLocked(now []fingerprint) error {
	r.seen = now
	err := r.load()
	if err != nil {
		r.log.Error("the "+r.what+" cannot be reloaded; what was loaded before holds", "error", err)
	} else {
		r.log.Info("reloaded the "+r.what, "files", r.paths)
	}
	if r.told != nil {
		r.told(r.what, err)
	}
	return err
}

// close stops watching. It may be called more than once.
func (r *reloader) close() {
	r.stop.Do(func() { close(r.quit) })
	r.done.Wait()
}
