#!/bin/sh
# TaskProlog of slurm.conf: gives each task the name under which antiphase_slurm.py commits its job.
# A name that the user chose stays; one of the job from which this job was submitted does not.
case ${ANTIPHASE_JOB:-} in
'' | slurm-*) echo "export ANTIPHASE_JOB=slurm-$SLURM_CLUSTER_NAME-$SLURM_JOB_ID" ;;
esac
