# A node to try Carrel with: sshd, python3, one account, and a stand-in nvidia-smi that pretends
# two GPUs. Its host key is made when it starts.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openssh-server python3 \
    && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
    && useradd --create-home --shell /bin/bash --password '*' researcher \
    && install -d -o researcher -g researcher -m 0700 /home/researcher/.ssh \
    && install -d /run/sshd
COPY jobs/practice/nvidia_smi.py /usr/local/bin/nvidia-smi
COPY deploy/try/nvidia-smi.json /usr/local/bin/nvidia-smi.json
RUN chmod 0755 /usr/local/bin/nvidia-smi
CMD ["sh", "-c", "ssh-keygen -A && exec /usr/sbin/sshd -D -e"]
