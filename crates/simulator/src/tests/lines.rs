//! Exposition text against the example lines of `gpu_metrics::dcgm`, "Lines".

use super::*;

/// The lines of a name, with letters for the device's UUID, node and pod.
fn lines(fleet: &Fleet, name: &str) -> Vec<String> {
    let at = after(fleet.scenario(), 60);
    let text = fleet.exposition(0, at).unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")))
        .map(str::to_owned)
        .collect();
    let mut replace = |from: &str, to: &str| {
        for line in &mut lines {
            *line = line.replace(&format!("\"{from}\""), &format!("\"{to}\""));
        }
    };
    for (index, device) in fleet.devices().iter().enumerate() {
        replace(&device.uuid, "GPU");
        for holder in fleet.holders(index, at) {
            replace(holder.pod, "P");
            replace(holder.namespace, "N");
            replace(holder.container, "C");
        }
    }
    lines
}

/// Generation, field | the labels of a held GPU and its value | those of a free GPU; MODEL and OWNER
/// stand for labels that are repeated.
const LINES: &str = r#"
V2_1 DCGM_FI_DEV_MEM_COPY_UTIL | gpu="0",UUID="GPU",device="nvidia0",OWNER} 46 | gpu="1",UUID="GPU",device="nvidia1",container="",namespace="",pod=""} 0
V3_3 DCGM_FI_DEV_MEM_COPY_UTIL | gpu="0",UUID="GPU",device="nvidia0",MODEL="535.86.10",OWNER} 46 | gpu="1",UUID="GPU",device="nvidia1",MODEL="535.86.10"} 0
V4_1 DCGM_FI_PROF_DRAM_ACTIVE | gpu="0",UUID="GPU",pci_bus_id="00000000:18:00.0",device="nvidia0",MODEL="570.133.20",OWNER} 0.46 |
V4_5_3 DCGM_FI_PROF_DRAM_ACTIVE | gpu="0",UUID="GPU",pci_bus_id="00000000:18:00.0",device="nvidia0",MODEL="570.133.20",OWNER} 0.46 | gpu="1",UUID="GPU",pci_bus_id="00000000:28:00.0",device="nvidia1",MODEL="570.133.20"} 0
V4_8_3 DCGM_FI_PROF_DRAM_ACTIVE | gpu="0",UUID="GPU",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="gpu-node-00000",DCGM_FI_DRIVER_VERSION="580.95.05",OWNER} 0.46 |
"#;

#[test]
fn each_generation_prints_its_names_and_labels() {
    let model =
        r#"modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-00000",DCGM_FI_DRIVER_VERSION"#;
    let owner = r#"container="C",namespace="N",pod="P""#;
    for row in LINES.trim().lines() {
        let row = row.replace("MODEL", model).replace("OWNER", owner);
        let mut cells = row.split('|').map(str::trim);
        let (generation, name) = cells.next().unwrap().split_once(' ').unwrap();
        let mut all = Profile::ALL.into_iter();
        let profile = all.find(|it| format!("{it:?}") == generation).unwrap();
        let found = lines(&held_and_free(profile), name);
        for (line, labels) in found.iter().zip(cells) {
            assert!(
                line.ends_with(&format!("{{{labels}")) || labels.is_empty(),
                "{line}"
            );
        }
        // Sharing mode omitted free GPUs before 4.4.1-4.5.2.
        let expected = if profile == Profile::V4_1 { 1 } else { 2 };
        assert_eq!(found.len(), expected, "{generation}");
    }
}

fn shared(profile: Profile) -> Fleet {
    let mut scenario = Scenario::clean(1, 1, 1).under(LoadClass::Constant(62.0));
    scenario.hardware.shared_every = 1;
    scenario.exporters.profiles = vec![profile];
    Fleet::new(scenario)
}

#[test]
fn sharing_mode_prints_the_device_value_once_per_replica() {
    for profile in [Profile::V4_1, Profile::V4_5_3, Profile::V4_8_3] {
        let lines = lines(&shared(profile), "DCGM_FI_DEV_MEM_COPY_UTIL");
        assert_eq!(lines.len(), 4);
        for replica in 0..4 {
            let label = format!("vgpu=\"{replica}\"");
            assert!(lines.iter().any(|line| line.contains(&label)));
        }
        let value = |line: &String| line.rsplit(' ').next().unwrap().to_owned();
        assert!(lines.iter().all(|line| value(line) == value(&lines[0])));
    }
    let older = lines(&shared(Profile::V3_3), "DCGM_FI_DEV_MEM_COPY_UTIL");
    assert_eq!(older.len(), 1);
    assert!(older[0].contains("pod=\"P\"") && !older[0].contains("vgpu"));
}

#[test]
fn mig_instances_have_no_memory_copy_and_no_gpu_utilisation() {
    let mut scenario = Scenario::clean(1, 1, 1).under(LoadClass::Constant(20.0));
    scenario.hardware.mig_every = 1;
    scenario.exporters.profiles = vec![Profile::V3_3];
    let fleet = Fleet::new(scenario.clone());
    assert!(lines(&fleet, "DCGM_FI_DEV_MEM_COPY_UTIL").is_empty());
    assert!(lines(&fleet, "DCGM_FI_DEV_GPU_UTIL").is_empty());
    let instances = lines(&fleet, "DCGM_FI_PROF_DRAM_ACTIVE");
    assert_eq!(instances.len(), 3);
    for line in &instances {
        let is_instance = line.contains("GPU_I_PROFILE=\"") && line.contains("GPU_I_ID=\"");
        assert!(is_instance && line.ends_with(" 0.2"), "{line}");
    }
    scenario.exporters.mig_parent_lines = true;
    let both = lines(&Fleet::new(scenario), "DCGM_FI_PROF_DRAM_ACTIVE");
    assert_eq!(both.len(), 4);
    assert!(!both[0].contains("GPU_I_ID") && both[0].ends_with(" 0.2"));
}
