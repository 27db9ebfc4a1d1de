"""Text that Kubernetes leaves as it is: without references to environment variables.

Kubernetes replaces `$(NAME)` in the command, the arguments and the values of variables of a container, and `$$` by `$`:
kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables. The algorithm is `Expand`
in k8s.io/kubernetes/third_party/forked/golang/expansion.
"""

import re

# Older versions of Kubernetes read one byte after a dollar as a character, so a dollar before a character beyond ASCII
# is escaped too. Any other dollar stays, so that a pod with "$Default" does not change.
_READ_BY_KUBERNETES = re.compile(r"\$(?=[$(]|[^\x00-\x7f])")


def inert(text: str) -> str:
    """What a manifest must contain so that the container gets exactly this text, and no value of a variable."""
    return _READ_BY_KUBERNETES.sub("$$", text)
